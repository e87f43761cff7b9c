package plugins

import (
	"context"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// destination makes an sdk.Destination a Destination. Write runs on the goroutine that
// calls it and settles all records before it returns, unless the connector is to gather
// them in batches.
type destination struct {
	instance
	connector sdk.Destination
	settled   func(n int, err error)
	async     sdk.AsyncDestination // the connector when it gathers batches, else nil
}

// Open implements Destination.
func (d *destination) Open(ctx context.Context, settled func(n int, err error)) error {
	d.settled = settled
	if c, ok := d.connector.(sdk.AsyncDestination); ok && c.Async() {
		d.async = c
	}
	return d.call(ctx, d.timeouts.Open, func(ctx context.Context) error {
		return d.connector.Open(ctx)
	})
}

// Write implements Destination.
func (d *destination) Write(ctx context.Context, b *record.Batch) error {
	if err := d.enter(&d.main); err != nil {
		return err
	}
	defer d.main.leave()
	records, err := b.Records()
	if err != nil || len(records) == 0 {
		return err
	}
	inner := d.main.context(ctx, d.env)
	if d.async != nil {
		return d.gather(inner, func() error { return d.async.WriteAsync(inner, records, d.settled) })
	}
	for err == nil && len(records) > 0 {
		records, err = d.writeSome(inner, records)
	}
	return err
}

// writeSome writes records up to the first that is refused, settles those, and returns
// the records behind them, which the connector did not try.
func (d *destination) writeSome(ctx context.Context, records []record.Record) ([]record.Record, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	n, err := d.write(ctx, records[:len(records):len(records)])
	if isPanic(err) {
		return nil, d.contained(err)
	}
	cut := err != nil && ctx.Err() != nil // the call was broken off: that is no refusal
	if bad := d.check(n, len(records), err, cut); bad != nil {
		return nil, d.fail(bad)
	}
	if n > 0 {
		d.settled(n, nil)
	}
	switch {
	case err == nil:
		return nil, nil
	case cut:
		return nil, context.Cause(ctx)
	}
	d.settled(1, err)
	return records[n+1:], nil
}

func (d *destination) write(ctx context.Context, records []record.Record) (n int, err error) {
	defer recovered(&err)
	return d.connector.Write(ctx, records)
}

// check finds results of Write that mean nothing. What was written is unknown then,
// so that no record may be settled.
func (d *destination) check(n, records int, err error, cut bool) error {
	switch {
	case n < 0 || n > records:
		return d.fault("it says it wrote %d of %d records", n, records)
	case n < records && err == nil:
		return d.fault("it wrote %d of %d records and gave no error", n, records)
	case n == records && err != nil && !cut:
		return d.fault("it wrote all of %d records and gave an error: %w", records, err)
	}
	return nil
}

// Flush implements Destination.
func (d *destination) Flush(ctx context.Context) error {
	if err := d.enter(&d.main); err != nil {
		return err
	}
	defer d.main.leave()
	if d.async == nil {
		return nil
	}
	inner := d.main.context(ctx, d.env)
	return d.gather(inner, func() error { return d.async.Flush(inner) })
}

// gather makes a call on a connector that gathers batches.
func (d *destination) gather(ctx context.Context, fn func() error) error {
	err := contain(fn)
	if err != nil && !isPanic(err) && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return d.contained(err)
}
