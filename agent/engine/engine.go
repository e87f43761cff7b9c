// Package engine is the data plane: it runs one pipeline, moving batches from its sources through processors to its
// destinations. It acknowledges a record to its source only after every destination has settled it and the store has
// its checkpoint.
//
// A batch is read in source.go, passes the processors of source and pipeline in source_process.go, then for
// each destination its processors in destination_prepare.go, and is written in destination.go. The tracker, in
// tracker.go, learns what became of each record, and commit.go saves the positions. Batches of lines that nobody looks
// into are explained in rawlane.go.
package engine

import (
	"context"

	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/spec"
)

// Plugins starts connectors and processors. A returned connector runs but is not configured.
type Plugins interface {
	Source(ctx context.Context, plugin, connectorID string) (connector.Source, error)
	Destination(ctx context.Context, plugin, connectorID string) (connector.Destination, error)
	// ByName returns a reference by name to the plugin to which plugin, possibly the path of an executable, refers
	// now: the same plugin has the same name either way.
	ByName(plugin string) string
	// WithDefaults returns settings completed with the defaults of the plugin as a destination.
	WithDefaults(plugin string, settings map[string]string) map[string]string
	// Processors returns a running chain of processors declared by parent, a qualified id. If the two are compatible,
	// the chain replaces former, nil for none.
	Processors(ctx context.Context, parent string, declared []spec.Processor, former connector.Chain) (connector.Chain,
		error)
}

// Store keeps the state that must survive a crash.
type Store interface {
	// Checkpoint returns the checkpoint of the source with this qualified id, nil for none.
	Checkpoint(ctx context.Context, connectorID string) (*spec.Checkpoint, error)
	// SaveCheckpoints makes all checkpoints durable in one transaction. When it returns nil they survive a power cut;
	// when it returns an error no checkpoint has changed.
	SaveCheckpoints(ctx context.Context, checkpoints []spec.Checkpoint) error
	// BeginRun returns the epoch of a new run of the pipeline, greater than any before.
	// From then on checkpoints of earlier epochs are refused.
	BeginRun(ctx context.Context, pipelineID string) (epoch int64, err error)
	lifecycleStore
}
