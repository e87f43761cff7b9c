package sdk

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec/notify"
)

// collector gathers the records of reads into batches of at most size records, returned at most delay after the first
// record. A read in progress at the end of the delay continues, so that the connector never sees a context end during
// its work; its records belong to the next batch. A batch is returned early if the connector reads nothing more before
// records are acknowledged.
type collector struct {
	read  func(context.Context) ([]record.Record, error)
	size  int           // 0: unlimited
	delay time.Duration // 0: until the batch is full
	limit int           // limit of unacknowledged records of the connector; 0: no limit

	unacked atomic.Int64  // records returned and not acknowledged
	stalls  notify.Signal // the connector has reported that it is stalled
	stalled bool          // the read in progress is stalled

	buffered []record.Record    // records of the next batch
	err      error              // error of read, returned after the records before it
	pending  chan readResult    // result of the read in progress, nil if there is none
	cancel   context.CancelFunc // cancels the read in progress
}

type readResult struct {
	records []record.Record
	err     error
}

// Read returns the next batch. If ctx ends, Read returns the records read so far, if any.
func (c *collector) Read(ctx context.Context) ([]record.Record, error) {
	size := c.size
	if size <= 0 {
		size = Unlimited
	}
	c.fill(ctx, size)
	batch := c.buffered
	c.buffered = nil
	if len(batch) > size && ctx.Err() == nil {
		batch, c.buffered = batch[:size:size], batch[size:]
	}
	c.unacked.Add(int64(len(batch)))
	if len(batch) > 0 {
		return batch, nil
	}
	err := c.err
	if c.err = nil; err == nil {
		err = ctx.Err()
	}
	return nil, err
}

// fill reads until size records are buffered, the delay is over, or the connector returns nothing more.
func (c *collector) fill(ctx context.Context, size int) {
	var late <-chan time.Time
	if c.stalled && len(c.buffered) == 0 {
		Stalled(ctx)
	}
	for len(c.buffered) < size && c.err == nil && (ctx.Err() == nil || c.pending != nil) && !c.full() {
		if late == nil && c.delay > 0 && len(c.buffered) > 0 {
			timer := time.NewTimer(c.delay)
			defer timer.Stop()
			late = timer.C
		}
		c.start(ctx)
		select {
		case r := <-c.pending:
			c.take(r)
		case <-late:
			return
		case <-c.stalls:
			c.stalled = true
			if len(c.buffered) > 0 {
				return
			}
			Stalled(ctx)
		case <-ctx.Done():
			c.cancel()
			c.take(<-c.pending)
		}
	}
}

// full reports whether there are records, and the connector returns no more before an acknowledgement.
func (c *collector) full() bool {
	return c.limit > 0 && len(c.buffered) > 0 && int64(len(c.buffered))+c.unacked.Load() >= int64(c.limit)
}

func (c *collector) start(ctx context.Context) {
	if c.pending != nil {
		return
	}
	ctx, c.cancel = context.WithCancel(WithStalled(context.WithoutCancel(ctx), c.stalls.Notify))
	pending := make(chan readResult, 1)
	c.pending = pending
	go func() { pending <- c.readSafely(ctx) }()
}

// readSafely returns a panic as an error. Otherwise the panic would end the process.
func (c *collector) readSafely(ctx context.Context) (r readResult) {
	defer Recover(&r.err)
	records, err := c.read(ctx)
	return readResult{records, err}
}

func (c *collector) take(r readResult) {
	c.cancel()
	c.pending, c.err, c.stalled = nil, r.err, false
	if c.buffered == nil {
		c.buffered = slices.Clip(r.records) // the capacity after them belongs to the connector
	} else {
		c.buffered = append(c.buffered, r.records...)
	}
}

// end cancels the read in progress and waits for it, at most until ctx ends.
func (c *collector) end(ctx context.Context) {
	if c.pending == nil {
		return
	}
	c.cancel()
	select {
	case <-c.pending:
		c.pending = nil
	case <-ctx.Done():
	}
}
