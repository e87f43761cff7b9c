// Package handover hands what the goroutine of a source reads to its Read.
package handover

import (
	"context"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
)

// Queue is of records, or of the error that ends reading.
type Queue chan batch

type batch struct {
	records []record.Record
	err     error
}

// Read waits for the next records, or the error. It implements sdk.Source.
func (q Queue) Read(ctx context.Context) ([]record.Record, error) {
	select {
	case b := <-q:
		return b.records, b.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Send waits until there is room for records, and reports whether that was before ctx ended.
func (q Queue) Send(ctx context.Context, records []record.Record) bool {
	return q.send(ctx, batch{records: records})
}

// Fail has Read return an error.
func (q Queue) Fail(ctx context.Context, err error) { q.send(ctx, batch{err: err}) }

func (q Queue) send(ctx context.Context, b batch) bool {
	select {
	case q <- b:
		return true
	case <-ctx.Done():
		return false
	}
}

// SendMeanwhile is Send that does something now and then while it waits.
func (q Queue) SendMeanwhile(ctx context.Context, records []record.Record, every time.Duration, do func()) bool {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case q <- batch{records: records}:
			return true
		case <-ctx.Done():
			return false
		case <-tick.C:
			do()
		}
	}
}
