package sdk

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
)

// AsyncDestination is a destination that may hold records back to write them together.
// A standard destination is one. Connectors need not care.
type AsyncDestination interface {
	Destination
	// Async reports, after Configure, whether the host is to call WriteAsync and Flush
	// instead of Write.
	Async() bool
	// WriteAsync takes the records and may return before they are written. settled is
	// called for them in order, one call at a time, from within this or a later call or
	// from another goroutine: the next n are durable downstream, or, when err is not
	// nil, were refused because of err. It may block, but not call the destination. An
	// error means that the destination is broken; what was not settled never will be.
	WriteAsync(ctx context.Context, records []record.Record, settled func(n int, err error)) error
	// Flush writes what is held back and returns when every record was settled.
	Flush(ctx context.Context) error
}

// holding gathers records until there are size of them, or the first is delay old.
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

func (h *holding) open(ctx context.Context, inner func(context.Context, []record.Record) (int, error), size int, delay time.Duration) {
	if size == 0 {
		size = unlimited
	}
	h.inner, h.size, h.delay = inner, size, delay
	h.ctx, h.cancel = context.WithCancel(context.WithoutCancel(ctx))
}

func (h *holding) write(ctx context.Context, records []record.Record, settled func(n int, err error)) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.settled = settled
	if h.err == nil {
		h.held = append(h.held, records...)
	}
	for h.err == nil && len(h.held) >= h.size {
		h.writeFirst(ctx, h.size)
	}
	if h.err == nil && len(h.held) > 0 && h.delay > 0 && h.timer == nil {
		h.timer = time.AfterFunc(h.delay, h.late)
	}
	return h.err
}

// late runs when the delay of the first record held is over.
func (h *holding) late() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer = nil
	if h.ctx.Err() == nil && h.err == nil {
		h.writeFirst(h.ctx, len(h.held))
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

// writeFirst writes the first n records held and settles them, each by itself when it is
// refused. When it cannot, h is broken.
func (h *holding) writeFirst(ctx context.Context, n int) {
	batch := h.held[:n:n]
	if h.held = h.held[n:]; len(h.held) == 0 {
		h.held = nil
	}
	h.stopTimer() // what is left is younger
	for len(batch) > 0 {
		n, err := h.writeSafely(ctx, batch)
		if n > 0 {
			h.settled(n, nil)
			batch = batch[n:]
		}
		switch {
		case err == nil:
		case ctx.Err() != nil:
			h.err = err // the end of ctx says nothing about the record
			return
		case h.err != nil:
			h.settled(len(batch), h.err)
			return
		default:
			h.settled(1, err)
			batch = batch[1:]
		}
	}
}

// writeSafely returns a valid n. A broken promise of the connector breaks h.
func (h *holding) writeSafely(ctx context.Context, batch []record.Record) (n int, err error) {
	defer func() {
		if v := recover(); v != nil {
			h.err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
			n, err = 0, h.err
		}
	}()
	n, err = h.inner(ctx, batch)
	if n < 0 || n > len(batch) || (n == len(batch)) != (err == nil) {
		h.err = fmt.Errorf("cannot write: the connector says that it wrote %d of %d records, and error %v", n, len(batch), err)
		return 0, h.err
	}
	return n, err
}

func (h *holding) stopTimer() {
	if h.timer != nil {
		h.timer.Stop()
		h.timer = nil
	}
}

// close gives up what is held and waits for a write that the delay caused.
func (h *holding) close() {
	if h.cancel == nil {
		return
	}
	h.cancel()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopTimer()
}
