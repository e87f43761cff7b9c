package sdk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

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

// writeBuffer gathers records until there are size of them, or the first is delay old.
// Without either it writes them at once.
type writeBuffer struct {
	begin func(context.Context) // is called before the records of a batch are written
	inner func(context.Context, []record.Record) (int, error)
	size  int           // 0: unlimited
	delay time.Duration // 0: until there are enough

	ctx    context.Context // of writes that the delay causes; ends with close
	cancel context.CancelFunc

	mu       sync.Mutex // guards the rest; held while writing and settling
	buffered []record.Record
	settled  func(n int, err error)
	timer    *time.Timer // runs while there is something buffered and a delay
	err      error       // why it is broken
}

func (b *writeBuffer) open(ctx context.Context) {
	b.ctx, b.cancel = context.WithCancel(context.WithoutCancel(ctx))
}

func (b *writeBuffer) write(ctx context.Context, records []record.Record, settled func(n int, err error)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return b.err
	}
	b.settled = settled
	if b.size == 0 && b.delay == 0 {
		b.writeAll(ctx, records)
		return b.err
	}
	b.buffered = append(b.buffered, records...)
	size := cmp.Or(b.size, unlimited)
	for b.err == nil && len(b.buffered) >= size {
		b.writeFirst(ctx, size)
	}
	if b.err == nil && len(b.buffered) > 0 && b.delay > 0 && b.timer == nil {
		b.timer = time.AfterFunc(b.delay, b.late)
	}
	return b.err
}

// late runs when the delay of the first buffered record is over. No caller waits for it, so it
// reports itself that b is broken.
func (b *writeBuffer) late() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timer = nil
	if b.ctx.Err() != nil || b.err != nil {
		return
	}
	b.writeFirst(b.ctx, len(b.buffered))
	if b.err != nil && b.ctx.Err() == nil {
		b.settled(0, b.err)
	}
}

func (b *writeBuffer) flush(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.writeFirst(ctx, len(b.buffered))
	}
	return b.err
}

// writeFirst writes the first n buffered records, as writeAll does.
func (b *writeBuffer) writeFirst(ctx context.Context, n int) {
	batch := b.buffered[:n:n]
	if b.buffered = b.buffered[n:]; len(b.buffered) == 0 {
		b.buffered = nil
	}
	if b.timer != nil { // what is left is younger
		b.timer.Stop()
		b.timer = nil
	}
	b.writeAll(ctx, batch)
}

// writeAll writes the records and settles them, each by itself when it is refused. When
// it cannot go on, h is broken.
func (b *writeBuffer) writeAll(ctx context.Context, batch []record.Record) {
	b.begin(ctx)
	for len(batch) > 0 {
		n, err := b.writeSome(ctx, batch)
		if n > 0 {
			b.settled(n, nil)
			batch = batch[n:]
		}
		if b.err != nil {
			return
		}
		if err != nil {
			b.settled(1, err)
			batch = batch[1:]
			if b.err = ctx.Err(); b.err != nil { // one refused too many: nothing may get ahead of it
				return
			}
		}
	}
}

// writeSome returns how many records were written and why the next one was not. It
// breaks h when that is not the record's fault.
func (b *writeBuffer) writeSome(ctx context.Context, batch []record.Record) (n int, err error) {
	defer Recover(&b.err)
	n, err = b.inner(ctx, batch)
	switch {
	case n < 0, n > len(batch), (n == len(batch)) != (err == nil):
		reported := fmt.Sprint(err)
		b.err = fmt.Errorf("cannot write: the connector says that it wrote %d of %d records, with error %s", n, len(batch), reported)
		return 0, err
	case err != nil && (ctx.Err() != nil || errors.As(err, new(unavailableError))):
		b.err = err
	}
	return n, err
}

// close gives up what is buffered and waits for a write that the delay caused.
func (b *writeBuffer) close() {
	if b.cancel == nil {
		return
	}
	b.cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timer != nil {
		b.timer.Stop()
	}
}
