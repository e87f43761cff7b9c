package otlp

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/spec/notify"
)

const (
	queueLength = 4096 // spans, or log records, that wait; more are dropped
	batchLength = 512  // of these, sent in one request
)

// pace has the durations of sending.
var pace = struct {
	gather time.Duration // how long the first item waits for others
	export time.Duration // limit of a request with its retries
	retry  time.Duration // pause before the first retry
	flush  time.Duration // limit for the rest when the agent ends
}{gather: time.Second, export: 20 * time.Second, retry: time.Second, flush: 3 * time.Second}

// queue sends items in batches. Adding an item does not block: when the queue is full, the item is dropped.
type queue[T any] struct {
	export func(ctx context.Context, batch []T) error
	health *health

	sent, dropped atomic.Uint64

	mu    sync.Mutex
	items []T           // guarded by mu
	wake  notify.Signal // there is an item, or a batch
}

func newQueue[T any](h *health, export func(ctx context.Context, batch []T) error) *queue[T] {
	return &queue[T]{export: export, health: h, wake: notify.NewSignal()}
}

func (q *queue[T]) add(item T) {
	q.mu.Lock()
	n := len(q.items)
	if n < queueLength {
		q.items = append(q.items, item)
	}
	q.mu.Unlock()
	switch {
	case n == queueLength:
		q.dropped.Add(1)
	case n == 0 || n+1 == batchLength:
		q.wake.Notify()
	}
}

// run sends until ctx ends, and then the rest, for at most pace.flush. It always returns nil.
func (q *queue[T]) run(ctx context.Context) error {
	for q.gather(ctx) {
		for batch := q.take(); len(batch) > 0; batch = q.take() {
			if !q.send(ctx, batch) && ctx.Err() != nil {
				q.flush(ctx, batch)
				return nil
			}
		}
	}
	q.flush(ctx, nil)
	return nil
}

// gather waits for an item, and then for a batch, but not longer than pace.gather. It returns false when ctx has ended.
func (q *queue[T]) gather(ctx context.Context) bool {
	select {
	case <-q.wake:
	case <-ctx.Done():
		return false
	}
	enough := time.NewTimer(pace.gather)
	defer enough.Stop()
	for q.waiting() < batchLength {
		select {
		case <-q.wake:
		case <-enough.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
	return true
}

func (q *queue[T]) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}

// take removes the first items from the queue, at most a batch.
func (q *queue[T]) take() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.items), batchLength)
	batch := append([]T(nil), q.items[:n]...)
	left := copy(q.items, q.items[n:])
	clear(q.items[left:])
	q.items = q.items[:left]
	return batch
}

// send sends a batch and reports whether that succeeded. It drops the batch otherwise, unless ctx has ended.
func (q *queue[T]) send(ctx context.Context, batch []T) bool {
	sending, cancel := context.WithTimeout(ctx, pace.export)
	defer cancel()
	err := q.export(sending, batch)
	if err == nil {
		q.sent.Add(uint64(len(batch)))
		q.health.succeeded(q.dropped.Load())
		return true
	}
	if ctx.Err() == nil {
		q.dropped.Add(uint64(len(batch)))
		q.health.failed(err)
	}
	return false
}

// flush sends batch and the queued items. It drops the items that it cannot send in time.
func (q *queue[T]) flush(ctx context.Context, batch []T) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pace.flush)
	defer cancel()
	if len(batch) == 0 {
		batch = q.take()
	}
	for ; len(batch) > 0; batch = q.take() {
		if !q.send(ctx, batch) && ctx.Err() != nil {
			q.dropped.Add(uint64(len(batch) + q.waiting()))
			return
		}
	}
}
