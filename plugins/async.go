package plugins

import (
	"context"
	"sync/atomic"

	"github.com/conduit-agent/conduit/plugins/record"
)

// asyncDestination is an sdk.Destination that may hold records back to write them in
// larger batches. It is written to through WriteAsync instead of Write.
type asyncDestination interface {
	// WriteAsync takes the records over. settled is called, one call at a time and in
	// the order of the records, also after it returned: the next n are durable, or
	// were refused because of err. An error means that the connector is broken.
	WriteAsync(ctx context.Context, records []record.Record, settled func(n int, err error)) error
	// Flush returns when every record was settled.
	Flush(ctx context.Context) error
}

// asyncWriter keeps the account of an asyncDestination.
type asyncWriter struct {
	*instance
	connector asyncDestination
	settled   func(n int, err error)
	owed      atomic.Int64 // records written and not settled
}

func (w *asyncWriter) write(ctx context.Context, records []record.Record) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	w.owed.Add(int64(len(records)))
	return w.contained(contain(func() error {
		return w.connector.WriteAsync(ctx, records, w.settle)
	}))
}

// settle passes a result on, unless there is no record that it could be about.
func (w *asyncWriter) settle(n int, err error) {
	if w.usable() != nil {
		return
	}
	if n < 0 || w.owed.Add(-int64(n)) < 0 {
		w.fail(w.fault("it settled %d records more than it was given", n))
		return
	}
	if n > 0 {
		w.settled(n, err)
	}
}

func (w *asyncWriter) flush(ctx context.Context) error {
	if err := contain(func() error { return w.connector.Flush(ctx) }); err != nil {
		return w.contained(err)
	}
	if err := w.usable(); err != nil {
		return err
	}
	if n := w.owed.Load(); n != 0 {
		return w.fail(w.fault("it flushed and left %d records unsettled", n))
	}
	return nil
}
