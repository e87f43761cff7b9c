package plugins

import (
	"context"

	"github.com/conduit-agent/conduit/plugins/record"
)

// Connector is what every running connector offers. A context that ends makes a call
// return soon; the connector then counts as broken.
type Connector interface {
	// Configure hands over the settings; an error says what is wrong with them.
	Configure(ctx context.Context, settings map[string]string) error
	LifecycleOnCreated(ctx context.Context, settings map[string]string) error
	LifecycleOnUpdated(ctx context.Context, before, after map[string]string) error
	LifecycleOnDeleted(ctx context.Context, settings map[string]string) error
	// Teardown ends the connector, whatever state it is in, and releases all it holds.
	// It is the last call. It always returns: when the connector does not answer in
	// time it is given up, and the error says so.
	Teardown(ctx context.Context) error
}

// Source is a running source connector. Read, Ack and Stop may be called concurrently
// with each other, but none of them with itself.
type Source interface {
	Connector
	// Open prepares for reading behind pos, from the beginning when pos is empty.
	Open(ctx context.Context, pos record.Position) error
	// Read returns the next batch, never an empty one. Every record has a position, the
	// time it was read and the id of the connector. It returns io.EOF when Stop was
	// called and everything read before was returned.
	Read(ctx context.Context) (*record.Batch, error)
	// Ack tells that the records at these positions are settled for good. In the order
	// read, each once.
	Ack(ctx context.Context, positions []record.Position) error
	// Stop ends reading. Read goes on to return what was read before, then io.EOF.
	Stop(ctx context.Context) error
}

// Destination is a running destination connector.
type Destination interface {
	Connector
	// Open prepares for writing. From then on settled is called, one call at a time and
	// in the order of the records written: the next n records are durable downstream,
	// or, when err is not nil, were refused because of err. With n = 0 the connector broke
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
