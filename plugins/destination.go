package plugins

import (
	"context"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// destination adapts an sdk.AsyncDestination to connector.Destination. Write and Flush run on the goroutine that calls
// them.
type destination struct {
	instance
	connector sdk.AsyncDestination
	settled   func(n int, err error)
}

// lineWriter is an sdk.AsyncDestination that can also write lines.
type lineWriter interface {
	sdk.AsyncDestination
	WriteLinesAsync(ctx context.Context, b *record.Batch, settled func(n int, err error)) error
}

// NoLines implements connector.LineDestination.
func (d *destination) NoLines() string { return sdk.NoLines(d.connector) }

// Open implements connector.Destination.
func (d *destination) Open(ctx context.Context, settled func(n int, err error)) error {
	d.settled = func(n int, err error) {
		if n == 0 {
			err = d.fail(d.fault("%w", err))
		}
		settled(n, err)
	}
	return d.call(ctx, d.timeouts.Open, func(ctx context.Context) error {
		return d.connector.Open(ctx)
	})
}

// Overlaps reports whether writes overlap, for connector.Overlaps.
func (d *destination) Overlaps() bool {
	o, ok := d.connector.(interface{ Overlaps() bool })
	return ok && o.Overlaps()
}

// Write implements connector.Destination.
func (d *destination) Write(ctx context.Context, b *record.Batch) error {
	if err := d.enter(&d.main); err != nil {
		return err
	}
	defer d.main.release()
	inner := d.main.context(ctx, d.env)
	if inner.Err() != nil {
		return context.Cause(inner)
	}
	if _, ok := b.Lines(); ok && d.NoLines() == "" {
		return d.written(inner, d.connector.(lineWriter).WriteLinesAsync(inner, b, d.settled))
	}
	records, err := b.Records()
	if err != nil {
		return err
	}
	return d.written(inner, d.connector.WriteAsync(inner, records[:len(records):len(records)], d.settled))
}

// WriteOut implements connector.Gatherer.
func (d *destination) WriteOut(ctx context.Context) error { return d.Flush(ctx) }

// Flush implements connector.Destination.
func (d *destination) Flush(ctx context.Context) error {
	if err := d.enter(&d.main); err != nil {
		return err
	}
	defer d.main.release()
	inner := d.main.context(ctx, d.env)
	return d.written(inner, d.connector.Flush(inner))
}

// written converts err to the error of Write and Flush. An error of the connector breaks it.
func (d *destination) written(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && !isPanic(err):
		return context.Cause(ctx)
	}
	return d.fail(d.fault("%w", err))
}
