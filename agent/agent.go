// Package agent is the composition root: it opens the store, wires the parts and owns
// every lifetime.
package agent

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec"
)

// Options are what the agent needs to run.
type Options struct {
	Config  config.Config
	Log     *slog.Logger
	Version string
}

// Run runs the agent until ctx ends, and then shuts it down gracefully.
func Run(ctx context.Context, o Options) error {
	<-ctx.Done()
	return nil
}

// Catalog knows the plugins that an agent with this configuration has.
type Catalog struct {
	Config config.Config
	Log    *slog.Logger
}

// Parameters returns the settings that a plugin understands as a connector of type typ.
func (c *Catalog) Parameters(_ context.Context, plugin string, typ spec.ConnectorType) (sdk.Parameters, error) {
	return nil, fmt.Errorf("no such %s plugin: %s", typ, plugin)
}

// Check returns what is wrong with the plugins of p and their settings. Paths are
// JSON pointers within p.
func (c *Catalog) Check(_ context.Context, p *spec.Pipeline) []spec.Problem { return nil }
