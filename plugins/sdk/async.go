package sdk

import (
	"context"

	"github.com/conduit-agent/conduit/plugins/record"
)

// AsyncDestination is a destination that may buffer records to write them together. A standard destination is one.
// Connectors need not implement it.
type AsyncDestination interface {
	Destination
	// WriteAsync is called instead of Write, and may return before the records are written. settled is called for the
	// records in order, one call at a time, from within this or a later call or from another goroutine. A call
	// settled(n, nil) means that the next n records are durable downstream; with an error, they were refused because of
	// err. A call with n = 0 means that the destination broke because of err outside of any call. settled may block,
	// but must not call the destination. An error of WriteAsync means that the destination is broken; unsettled records
	// will never be settled. The records are lent until they are settled, as in Write.
	WriteAsync(ctx context.Context, records []record.Record, settled func(n int, err error)) error
	// Flush writes the buffered records and returns when every record is settled.
	Flush(ctx context.Context) error
}

// OverlappingDestination is a destination that can begin to write records before its earlier writes are durable.
// Connectors implement it where overlapping writes are faster. Write is called instead of Begin when a batch size or a
// rate is set.
type OverlappingDestination interface {
	Destination
	// Overlaps reports, after Open, whether Begin is called instead of Write.
	Overlaps() bool
	// Begin begins to write the first n records, after the records of all earlier calls. If n is less than the number
	// of records, err is the reason why record n is refused; Begin is called for the rest once all earlier records are
	// durable. Begin may wait for room, and is not called concurrently with itself. The results are called one after
	// the other, possibly concurrently with Begin. ctx is the context of both. The records are lent until result has
	// returned their outcome.
	Begin(ctx context.Context, records []record.Record) (n int, result WriteResult, err error)
}

// WriteResult waits for the outcome of records that a destination began to write.
type WriteResult = Result
