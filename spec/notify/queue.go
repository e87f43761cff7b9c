package notify

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

// Queue holds pending work by key, and only the latest work of each key. Failed work is tried again, unless newer work
// has replaced it. Use NewQueue to create a Queue.
type Queue[V any] struct {
	wake Signal

	mu      sync.Mutex
	pending map[string]V // guarded by mu
}

// retry is the time until failed work is tried again.
const retry = time.Second

// NewQueue returns an empty queue.
func NewQueue[V any]() *Queue[V] { return &Queue[V]{wake: NewSignal(), pending: map[string]V{}} }

// Put queues work for a key, and replaces its pending work. It does not block.
func (q *Queue[V]) Put(key string, v V) {
	q.mu.Lock()
	q.pending[key] = v
	q.mu.Unlock()
	q.wake.Notify()
}

// Run calls do for each key, in order, one at a time, until ctx ends. It reports failures and recoveries to fails,
// which logs them.
func (q *Queue[V]) Run(
	ctx context.Context, log *slog.Logger, fails *Throttle, do func(ctx context.Context, key string, v V) error,
) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-q.wake:
		}
		q.mu.Lock()
		all := q.pending
		q.pending = map[string]V{}
		q.mu.Unlock()
		var failed error
		for _, key := range slices.Sorted(maps.Keys(all)) {
			err := do(ctx, key, all[key])
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				failed = err
				q.giveBack(key, all[key])
			}
		}
		if fails.Observe(log, failed); failed != nil {
			time.AfterFunc(retry, q.wake.Notify)
		}
	}
}

// giveBack queues failed work again, unless newer work has replaced it.
func (q *Queue[V]) giveBack(key string, v V) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, newer := q.pending[key]; !newer {
		q.pending[key] = v
	}
}
