// Package engine is the data plane: it runs one pipeline, moving batches from its sources
// through processors to its destinations, and acknowledges to a source only what every
// destination has and the store remembers.
package engine

import (
	"context"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// Connector is what the engine needs of every connector that a plugin host started.
// A context that ends makes a call return soon; the connector then counts as broken.
type Connector interface {
	// Configure hands over the settings; an error says what is wrong with them.
	Configure(ctx context.Context, settings map[string]string) error
	LifecycleOnCreated(ctx context.Context, settings map[string]string) error
	LifecycleOnUpdated(ctx context.Context, before, after map[string]string) error
	LifecycleOnDeleted(ctx context.Context, settings map[string]string) error
	// Teardown ends the connector, whatever state it is in, and releases its process.
	// It is the last call.
	Teardown(ctx context.Context) error
}

// Source is a source connector. Read, Ack and Stop may be called concurrently with
// each other, but none of them with itself.
type Source interface {
	Connector
	// Open prepares for reading behind pos, from the beginning when pos is empty.
	Open(ctx context.Context, pos record.Position) error
	// Read returns the next batch, never an empty one. It returns io.EOF when Stop was
	// called and everything up to the last position was returned.
	Read(ctx context.Context) (*record.Batch, error)
	// Ack tells that the records at these positions are settled and that the last of
	// them is durable as the place to resume from. In the order read, each once.
	Ack(ctx context.Context, positions []record.Position) error
	// Stop ends reading. Read goes on to return what was read before, then io.EOF.
	Stop(ctx context.Context) error
}

// Destination is a destination connector.
type Destination interface {
	Connector
	// Open prepares for writing. From then on settled is called, one call at a time and
	// in the order of the records written: the next n records are durable downstream, or,
	// when err is not nil, were refused because of err. With n = 0 the connector broke
	// because of err, and settles nothing more. It is called from any goroutine, possibly
	// from within Write, and may block.
	Open(ctx context.Context, settled func(n int, err error)) error
	// Write hands b over; it waits while the connector has too much on its hands. An
	// error means that the connector is broken, not that a record was refused.
	Write(ctx context.Context, b *record.Batch) error
	// Flush returns when every record written was settled. It writes out what the
	// connector holds back. No Write follows.
	Flush(ctx context.Context) error
}

// Careful is a destination that throws refused records together with those behind them
// unless it is told to answer for one write before it gets the next.
type Careful interface {
	// AwaitEachWrite is called before Open. It is not for connectors that gather records
	// over several writes.
	AwaitEachWrite()
}

// Plugins starts connectors and processors. A connector returned runs but is not configured.
type Plugins interface {
	Source(ctx context.Context, plugin, connectorID string) (Source, error)
	Destination(ctx context.Context, plugin, connectorID string) (Destination, error)
	// WithDefaults returns settings together with the defaults of the other settings that
	// the plugin takes as a destination.
	WithDefaults(plugin string, settings map[string]string) map[string]string
	// Processor returns a processor that is ready to process.
	Processor(ctx context.Context, id string, p spec.Processor) (Processor, error)
}

// Store keeps what must survive a crash.
type Store interface {
	// Position returns where the plugin of this name is to resume the source with this
	// qualified id, nil if it never got anywhere.
	Position(ctx context.Context, connectorID, plugin string) (record.Position, error)
	// SavePositions makes all positions durable in one transaction. When it returns nil
	// they survive a power cut; when it returns an error none of them changed.
	SavePositions(ctx context.Context, positions []Saved) error
	// BeginRun returns the epoch of a new run of the pipeline, greater than any before.
	// From then on positions of earlier epochs are refused.
	BeginRun(ctx context.Context, pipelineID string) (epoch int64, err error)
	// ConnectorState returns the state of a connector, nil if it was never started.
	ConnectorState(ctx context.Context, connectorID string) (*spec.ConnectorState, error)
	// SaveConnectorState replaces the state of a connector. What c points to is not changed
	// any more.
	SaveConnectorState(ctx context.Context, c *spec.ConnectorState) error
}

// Saved is the place to resume one source from.
type Saved struct {
	ConnectorID string
	PipelineID  string
	Plugin      string // name of the one that can read the position
	Position    record.Position
	Epoch       int64 // of the run that wrote it
	Sequence    int64 // number of records settled in that run
}
