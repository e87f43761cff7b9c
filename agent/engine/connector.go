// Package engine is the data plane: it runs one pipeline, moving batches from its sources
// through processors to its destinations, and acknowledges to a source only what every
// destination has and the store remembers.
package engine

import (
	"context"

	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/spec"
)

// Plugins starts connectors and processors. A connector returned runs but is not configured.
type Plugins interface {
	Source(ctx context.Context, plugin, connectorID string) (connector.Source, error)
	Destination(ctx context.Context, plugin, connectorID string) (connector.Destination, error)
	// ByName returns a reference by name to the plugin that plugin stands for now, which
	// may be the path of an executable: the same plugin has the same name either way.
	ByName(plugin string) string
	// WithDefaults returns settings together with the defaults of the other settings that
	// the plugin takes as a destination.
	WithDefaults(plugin string, settings map[string]string) map[string]string
	// Processors returns a running chain of processors, which parent declares: its
	// qualified id. It is to take the place of former, nil for none, if both fit.
	Processors(ctx context.Context, parent string, declared []spec.Processor, former connector.Chain) (connector.Chain, error)
}

// Store keeps what must survive a crash.
type Store interface {
	// Checkpoint returns where the source with this qualified id got, nil if nowhere.
	Checkpoint(ctx context.Context, connectorID string) (*spec.Checkpoint, error)
	// SaveCheckpoints makes all checkpoints durable in one transaction. When it returns
	// nil they survive a power cut; when it returns an error none of them changed.
	SaveCheckpoints(ctx context.Context, checkpoints []spec.Checkpoint) error
	// BeginRun returns the epoch of a new run of the pipeline, greater than any before.
	// From then on checkpoints of earlier epochs are refused.
	BeginRun(ctx context.Context, pipelineID string) (epoch int64, err error)
	lifecycleStore
}
