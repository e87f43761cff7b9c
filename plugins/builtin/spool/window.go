package spool

import (
	"context"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/plugins/spoollog"
)

// Constants of the window. It doubles when backlog records are acknowledged faster than quick, and halves when they
// take longer than slow, because new records wait behind the backlog in flight.
const (
	minOnWay   = 1
	maxOnWay   = 8192
	firstOnWay = 64
	quick      = 250 * time.Millisecond
	slow       = 500 * time.Millisecond
)

// window is a congestion window: it limits the number of backlog records in flight.
type window struct {
	mu     sync.Mutex
	limit  int       // 0: firstOnWay
	since  time.Time // time of the last change of limit
	onWay  int       // backlog records in flight
	sends  []send
	freed  bool               // records were acknowledged since the last call of free
	wakeup context.CancelFunc // ends wait
}

// send is a batch with unacknowledged records.
type send struct {
	left    int
	backlog bool
	at      time.Time
}

func (w *window) sent(n int, backlog bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sends = append(w.sends, send{n, backlog, time.Now()})
	if backlog {
		w.onWay += n
	}
}

// free returns the number of backlog records that may be sent.
func (w *window) free() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.limit == 0 {
		w.limit = firstOnWay
	}
	w.freed = false
	if free := w.limit - w.onWay; free*4 >= w.limit { // avoids very small batches
		return free
	}
	return 0
}

// acked records that the next n records were acknowledged.
func (w *window) acked(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for n > 0 && len(w.sends) > 0 {
		s := &w.sends[0]
		k := min(n, s.left)
		n, s.left = n-k, s.left-k
		if s.backlog {
			w.onWay -= k
		}
		if s.left == 0 {
			w.adapt(*s)
			w.sends = w.sends[1:]
		}
	}
	if w.freed = true; w.wakeup != nil {
		w.wakeup()
	}
}

// adapt changes the limit according to the latency of a batch, unless the batch was sent before the last change.
func (w *window) adapt(s send) {
	if !s.backlog || s.at.Before(w.since) {
		return
	}
	before := w.limit
	switch took := time.Since(s.at); {
	case took < quick:
		w.limit = min(2*w.limit, maxOnWay)
	case took > slow:
		w.limit = max(w.limit/2, minOnWay)
	}
	if w.limit != before {
		w.since = time.Now()
	}
}

// wait waits until there are records at the cursor, or records were acknowledged.
func (w *window) wait(ctx context.Context, c *spoollog.Cursor) error {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	w.mu.Lock()
	w.wakeup = cancel
	if w.freed {
		cancel()
	}
	w.freed = false
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.wakeup = nil
		w.mu.Unlock()
	}()
	if err := c.Wait(inner); err != nil && inner.Err() == nil {
		return err
	}
	return ctx.Err()
}
