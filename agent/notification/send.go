package notification

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/spec/notify"
)

// Bounds of the attempts to send.
const (
	maxQueue   = 100 // notifications that wait for one target; excess ones are dropped, oldest first
	minPause   = time.Second
	maxPause   = 5 * time.Minute
	maxAge     = 24 * time.Hour  // of a notification that is still tried
	lastChance = 5 * time.Second // for waiting notifications when the agent ends
)

// Target is a receiver of notifications. The body is the JSON of n.
type Target interface {
	// Name identifies the target for people, without secrets.
	Name() string
	// Send returns nil once the target has accepted the notification. Its errors contain no secrets.
	Send(ctx context.Context, n *Notification, body []byte) error
}

// refused is an error that a retry cannot fix.
type refused struct{ error }

func (e *refused) Unwrap() error { return e.error }

// queue sends notifications to one target, in order, each until the target accepts it.
type queue struct {
	target Target
	log    *slog.Logger
	wake   notify.Signal
	counts func(result string)

	mu      sync.Mutex
	waiting []Notification // guarded by mu
}

// add adds a notification. It never blocks.
func (q *queue) add(n Notification) {
	q.mu.Lock()
	dropped := len(q.waiting) >= maxQueue
	if dropped {
		q.waiting = q.waiting[1:]
	}
	q.waiting = append(q.waiting, n)
	q.mu.Unlock()
	if dropped {
		q.counts("dropped")
		q.log.Warn("too many notifications are waiting, dropping the oldest", "limit", maxQueue)
	}
	q.wake.Notify()
}

func (q *queue) next() (n Notification, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return n, false
	}
	n, q.waiting = q.waiting[0], q.waiting[1:]
	return n, true
}

// run sends until ctx ends, and then tries the waiting notifications once more.
func (q *queue) run(ctx context.Context) {
	failing := notify.Throttle{Fails: "cannot send a notification, trying again",
		Recovered: "notifications can be sent again"}
	for ctx.Err() == nil {
		n, ok := q.next()
		if !ok {
			select {
			case <-q.wake:
			case <-ctx.Done():
			}
			continue
		}
		q.deliver(ctx, &failing, &n)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastChance)
	defer cancel()
	for n, ok := q.next(); ok && ctx.Err() == nil; n, ok = q.next() {
		q.finish(q.try(ctx, &n), &n)
	}
}

// deliver sends n, with exponential backoff and jitter between attempts.
func (q *queue) deliver(ctx context.Context, failing *notify.Throttle, n *Notification) {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		err := q.try(ctx, n)
		if ctx.Err() != nil && err != nil {
			q.mu.Lock()
			q.waiting = append([]Notification{*n}, q.waiting...)
			q.mu.Unlock()
			return
		}
		if over := (*refused)(nil); err == nil || errors.As(err, &over) || time.Since(n.At) > maxAge {
			if err == nil {
				failing.Observe(q.log, nil)
			}
			q.finish(err, n)
			return
		}
		failing.Observe(q.log, err)
		q.counts("failed")
		timer := time.NewTimer(pause/2 + rand.N(pause/2))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// finish records the final result of n.
func (q *queue) finish(err error, n *Notification) {
	if err == nil {
		q.counts("sent")
		return
	}
	q.counts("dropped")
	q.log.Error("cannot send a notification, dropping it", "kind", n.Kind, "pipeline_id", n.Pipeline, "err", err)
}

func (q *queue) try(ctx context.Context, n *Notification) error {
	body, err := json.Marshal(n)
	if err != nil {
		return &refused{err}
	}
	return q.target.Send(ctx, n, body)
}
