package sdk

import (
	"context"

	"github.com/conduit-agent/conduit/plugins/record"
)

// AsyncDestination is a destination that may hold records back to write them together.
// A standard destination is one. Connectors need not care.
type AsyncDestination interface {
	Destination
	// WriteAsync is called instead of Write, and may return before the records are
	// written. settled is called for them in order, one call at a time, from within this
	// or a later call or from another goroutine: the next n are durable downstream, or,
	// when err is not nil, were refused because of err. With n = 0 the destination broke
	// because of err while no call was under way. It may block, but not call the
	// destination. An error means that the destination is broken; what was not settled
	// never will be. The records are lent until they are settled, as in Write.
	WriteAsync(ctx context.Context, records []record.Record, settled func(n int, err error)) error
	// Flush writes what is buffered and returns when every record was settled.
	Flush(ctx context.Context) error
}

// OverlappingDestination is a destination that can begin to write records before those that it began to write
// earlier are durable. Where it pays, a connector implements it; Write is called where batches or a rate are set.
type OverlappingDestination interface {
	Destination
	// Overlaps reports, after Open, whether Begin is called instead of Write.
	Overlaps() bool
	// Begin begins to write the first n records, behind those of all calls before. When n is less than their number, err
	// says why the one behind is refused; Begin is called for the rest when all before is durable. It may wait until
	// there is room, and is not called concurrently with itself. result is called, of one call after the other,
	// while Begin may be; ctx is that of both, and the records are lent until result has said what became of them.
	Begin(ctx context.Context, records []record.Record) (n int, result WriteResult, err error)
}

// WriteResult waits until it is known what became of records that a destination began to write.
type WriteResult = Result
