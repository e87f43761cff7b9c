package common

import (
	"context"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Queue is a queue of records, or of the error that ends reading.
type Queue struct {
	batches chan batch
	buffer  sdk.Buffer // memory budget of the host for the records
}

type batch struct {
	records []record.Record
	size    int
	err     error
}

// NewQueue returns a queue with capacity for the given number of batches. The caller must close it.
func NewQueue(ctx context.Context, batches int) *Queue {
	return &Queue{make(chan batch, batches), sdk.NewBuffer(ctx)}
}

// Close releases the memory budget. The queue may be nil.
func (q *Queue) Close() {
	if q != nil {
		q.buffer.Close()
	}
}

// Read waits for the next records, or for the error. It implements sdk.Source.
func (q *Queue) Read(ctx context.Context) ([]record.Record, error) {
	select {
	case b := <-q.batches:
		q.buffer.Add(-b.size)
		return b.records, b.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Send waits until there is room and memory for the records, and queues them. It returns false if ctx ended first.
func (q *Queue) Send(ctx context.Context, records []record.Record) bool {
	return q.SendMeanwhile(ctx, records, 0, nil)
}

// Fail makes Read return err after the queued records.
func (q *Queue) Fail(ctx context.Context, err error) { q.send(ctx, batch{err: err}, nil, nil) }

// retryInterval is the time between two attempts to get memory.
const retryInterval = 20 * time.Millisecond

// SendMeanwhile is like Send, and calls do at each interval while it waits.
func (q *Queue) SendMeanwhile(ctx context.Context, records []record.Record, every time.Duration, do func()) bool {
	b := batch{records: records}
	for i := range records {
		b.size += records[i].Size()
	}
	var now <-chan time.Time
	if do != nil {
		tick := time.NewTicker(every)
		defer tick.Stop()
		now = tick.C
	}
	for !q.buffer.Take(b.size) {
		select {
		case <-time.After(retryInterval):
		case <-now:
			do()
		case <-ctx.Done():
			return false
		}
	}
	sent := q.send(ctx, b, now, do)
	if !sent {
		q.buffer.Add(-b.size)
	}
	return sent
}

func (q *Queue) send(ctx context.Context, b batch, now <-chan time.Time, do func()) bool {
	for {
		select {
		case q.batches <- b:
			return true
		case <-now:
			do()
		case <-ctx.Done():
			return false
		}
	}
}
