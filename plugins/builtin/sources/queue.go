package sources

import (
	"context"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Queue is of records, or of the error that ends reading.
type Queue struct {
	batches chan batch
	buffer  sdk.Buffer // of the host, that they are counted in
}

type batch struct {
	records []record.Record
	size    int
	err     error
}

// NewQueue returns a queue of so many batches, to be closed.
func NewQueue(ctx context.Context, batches int) *Queue {
	return &Queue{make(chan batch, batches), sdk.NewBuffer(ctx)}
}

// Close counts nothing any more. The queue may be nil.
func (q *Queue) Close() {
	if q != nil {
		q.buffer.Close()
	}
}

// Read waits for the next records, or the error. It implements sdk.Source.
func (q *Queue) Read(ctx context.Context) ([]record.Record, error) {
	select {
	case b := <-q.batches:
		q.buffer.Add(-b.size)
		return b.records, b.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Send waits until there is room and memory for records, and reports whether that was before ctx ended.
func (q *Queue) Send(ctx context.Context, records []record.Record) bool {
	return q.SendMeanwhile(ctx, records, 0, nil)
}

// Fail has Read return an error.
func (q *Queue) Fail(ctx context.Context, err error) { q.send(ctx, batch{err: err}, nil, nil) }

// retryInterval is the time between two attempts to get memory.
const retryInterval = 20 * time.Millisecond

// SendMeanwhile is Send that does something now and then while it waits.
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
