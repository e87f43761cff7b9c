package cli

import (
	"context"

	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec"
)

// Catalog knows the plugins that pipeline files may name.
type Catalog interface {
	// Parameters returns the settings that plugin understands as a connector of type
	// typ. The error says that there is no such plugin, or what is wrong with it.
	Parameters(ctx context.Context, plugin string, typ spec.ConnectorType) (sdk.Parameters, error)
	// Check returns what is wrong with the plugins of p and their settings. The Path of
	// a problem is a JSON pointer within p; File, Line and Column are left to the caller.
	Check(ctx context.Context, p *spec.Pipeline) []spec.Problem
	// Plugins returns all plugins, sorted by name, and what is in connectors.path and
	// processors.path but not used.
	Plugins(ctx context.Context) ([]plugins.Installed, []plugins.Problem)
	// Plugin returns the plugin that ref, written as in a pipeline file, stands for.
	Plugin(ctx context.Context, ref string) (plugins.Installed, error)
	// KnownProcessors returns the processors that are compiled in and those in processors.path.
	KnownProcessors(ctx context.Context) *processor.Registry
}
