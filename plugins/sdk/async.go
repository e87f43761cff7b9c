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
	// Flush writes what is held back and returns when every record was settled.
	Flush(ctx context.Context) error
}

// holding gathers records until there are size of them, or the first is delay old.
// Without either it writes them at once.
type holding struct {
	inner func(context.Context, []record.Record) (int, error)
	size  int           // 0: unlimited
	delay time.Duration // 0: until there are enough

	ctx    context.Context // of writes that the delay causes; ends with close
	cancel context.CancelFunc

	mu      sync.Mutex // guards the rest; held while writing and settling
	held    []record.Record
	settled func(n int, err error)
	timer   *time.Timer // runs while there is something held and a delay
	err     error       // why it is broken
}

func (h *holding) open(ctx context.Context) {
	h.ctx, h.cancel = context.WithCancel(context.WithoutCancel(ctx))
}

func (h *holding) write(ctx context.Context, records []record.Record, settled func(n int, err error)) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return h.err
	}
	h.settled = settled
	if h.size == 0 && h.delay == 0 {
		h.writeAll(ctx, records)
		return h.err
	}
	h.held = append(h.held, records...)
	size := cmp.Or(h.size, unlimited)
	for h.err == nil && len(h.held) >= size {
		h.writeFirst(ctx, size)
	}
	if h.err == nil && len(h.held) > 0 && h.delay > 0 && h.timer == nil {
		h.timer = time.AfterFunc(h.delay, h.late)
	}
	return h.err
}

// late runs when the delay of the first record held is over. Nobody waits for it, so it
// tells when h breaks.
func (h *holding) late() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer = nil
	if h.ctx.Err() != nil || h.err != nil {
		return
	}
	h.writeFirst(h.ctx, len(h.held))
	if h.err != nil && h.ctx.Err() == nil {
		h.settled(0, h.err)
	}
}

func (h *holding) flush(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		h.writeFirst(ctx, len(h.held))
	}
	return h.err
}

// writeFirst writes the first n records held, as writeAll does.
func (h *holding) writeFirst(ctx context.Context, n int) {
	batch := h.held[:n:n]
	if h.held = h.held[n:]; len(h.held) == 0 {
		h.held = nil
	}
	if h.timer != nil { // what is left is younger
		h.timer.Stop()
		h.timer = nil
	}
	h.writeAll(ctx, batch)
}

// writeAll writes the records and settles them, each by itself when it is refused. When
// it cannot go on, h is broken.
func (h *holding) writeAll(ctx context.Context, batch []record.Record) {
	for len(batch) > 0 {
		n, err := h.writeSome(ctx, batch)
		if n > 0 {
			h.settled(n, nil)
			batch = batch[n:]
		}
		if h.err != nil {
			return
		}
		if err != nil {
			h.settled(1, err)
			batch = batch[1:]
			if h.err = ctx.Err(); h.err != nil { // one refused too many: nothing may get ahead of it
				return
			}
		}
	}
}

// writeSome returns how many records were written and why the next one was not. It
// breaks h when that is not the record's fault.
func (h *holding) writeSome(ctx context.Context, batch []record.Record) (n int, err error) {
	defer Recover(&h.err)
	n, err = h.inner(ctx, batch)
	switch {
	case n < 0, n > len(batch), (n == len(batch)) != (err == nil):
		h.err = fmt.Errorf("cannot write: the connector says that it wrote %d of %d records, with error %v", n, len(batch), err)
		return 0, err
	case err != nil && (ctx.Err() != nil || errors.As(err, new(unavailableError))):
		h.err = err
	}
	return n, err
}

// close gives up what is held and waits for a write that the delay caused.
func (h *holding) close() {
	if h.cancel == nil {
		return
	}
	h.cancel()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.timer != nil {
		h.timer.Stop()
	}
}
