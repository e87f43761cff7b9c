package sdk

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
)

// Unlimited is the batch size if only a delay limits batches.
const Unlimited = 10_000

// WriteBuffer gathers Size records, or waits until the first one is Delay old. With neither limit it
// writes them at once.
type WriteBuffer struct {
	Begin  func(context.Context)                               // is called before the records of a batch are written
	Write  func(context.Context, []record.Record) (int, error) // like Write of a destination; does not panic
	Breaks func(err error) bool                                // reports whether err breaks the destination
	Size   int                                                 // 0: unlimited
	Delay  time.Duration                                       // 0: no time limit

	ctx    context.Context // context of writes after a delay; ends with Close
	cancel context.CancelFunc

	mu       sync.Mutex // guards the rest; held while writing and settling
	buffered []record.Record
	settled  func(n int, err error)
	timer    *time.Timer // runs while records are buffered and there is a delay
	err      error       // why the buffer is broken
}

// Open prepares the buffer. Close must follow.
func (b *WriteBuffer) Open(ctx context.Context) {
	b.ctx, b.cancel = context.WithCancel(context.WithoutCancel(ctx))
}

// Put writes the records, or keeps them for a later write, and calls settled for them in order. An error means that
// the destination is broken.
func (b *WriteBuffer) Put(ctx context.Context, records []record.Record, settled func(n int, err error)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return b.err
	}
	b.settled = settled
	if b.Size == 0 && b.Delay == 0 {
		b.writeAll(ctx, records)
		return b.err
	}
	b.buffered = append(b.buffered, records...)
	size := cmp.Or(b.Size, Unlimited)
	for b.err == nil && len(b.buffered) >= size {
		b.writeFirst(ctx, size)
	}
	if b.err == nil && len(b.buffered) > 0 && b.Delay > 0 && b.timer == nil {
		b.timer = time.AfterFunc(b.Delay, b.late)
	}
	return b.err
}

// late runs when the delay of the first buffered record is over. No caller waits for it, so late itself reports if b
// breaks.
func (b *WriteBuffer) late() {
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

// Flush writes the buffered records.
func (b *WriteBuffer) Flush(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.writeFirst(ctx, len(b.buffered))
	}
	return b.err
}

// writeFirst writes the first n buffered records like writeAll.
func (b *WriteBuffer) writeFirst(ctx context.Context, n int) {
	batch := b.buffered[:n:n]
	if b.buffered = b.buffered[n:]; len(b.buffered) == 0 {
		b.buffered = nil
	}
	if b.timer != nil { // the remaining records are younger
		b.timer.Stop()
		b.timer = nil
	}
	b.writeAll(ctx, batch)
}

// writeAll writes the records and settles them; it settles each refused record separately. If it cannot continue, b is
// broken.
func (b *WriteBuffer) writeAll(ctx context.Context, batch []record.Record) {
	b.Begin(ctx)
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
			if b.err = ctx.Err(); b.err != nil { // a final refusal: no later record may be written
				return
			}
		}
	}
}

// writeSome returns the number of written records, and the error of the next one. It breaks b if that record did not
// cause the error.
func (b *WriteBuffer) writeSome(ctx context.Context, batch []record.Record) (n int, err error) {
	n, err = b.Write(ctx, batch)
	switch {
	case n < 0, n > len(batch), (n == len(batch)) != (err == nil):
		reported := fmt.Sprint(err)
		b.err = fmt.Errorf("cannot write: the connector reported %d of %d records as written, with error %s", n,
			len(batch), reported)
		return 0, err
	case err != nil && (ctx.Err() != nil || b.Breaks(err)):
		b.err = err
	}
	return n, err
}

// Close drops the buffered records and waits for a write started by the delay.
func (b *WriteBuffer) Close() {
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
