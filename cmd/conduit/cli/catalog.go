package cli

import (
	"context"

	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec"
)

// Catalog provides the plugins that pipeline files may use.
type Catalog interface {
	// Parameters returns the settings of plugin as a connector of type typ. The error says that the plugin does not
	// exist, or describes its fault.
	Parameters(ctx context.Context, plugin string, typ spec.ConnectorType) (sdk.Parameters, error)
	// Check returns the problems with the plugins of p and their settings. The Path of a problem is a JSON pointer
	// within p; the caller sets File, Line and Column.
	Check(ctx context.Context, p *spec.Pipeline) []spec.Problem
	// RawLane returns, for every source of p whose connector has lines, by connector id, whether its records will pass
	// on the raw lane: "on", or "off" and the reason.
	RawLane(ctx context.Context, p *spec.Pipeline) map[string]string
	// Notes returns the notes of the sources of p about their settings, by connector id.
	Notes(ctx context.Context, p *spec.Pipeline) map[string][]string
	// Plugins returns all plugins, sorted by name, and the unused files in connectors.path and processors.path.
	Plugins(ctx context.Context) ([]plugins.Installed, []plugins.Problem)
	// Plugin returns the plugin for ref, written as in a pipeline file.
	Plugin(ctx context.Context, ref string) (plugins.Installed, error)
	// KnownProcessors returns the built-in processors and the processors in processors.path.
	KnownProcessors(ctx context.Context) *processor.Registry
}
