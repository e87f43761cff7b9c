package spool

import (
	"context"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/plugins/spoollog"
)

// The number of backlog records that are on their way at once is doubled while those are
// acknowledged sooner than quick, and halved when they take longer than slow: fresh ones wait
// behind them.
const (
	leastOnWay = 1
	mostOnWay  = 8192
	firstOnWay = 64
	quick      = 250 * time.Millisecond
	slow       = 500 * time.Millisecond
)

// pace bounds how many records of the backlog are on their way.
type pace struct {
	mu     sync.Mutex
	limit  int       // 0: firstOnWay
	since  time.Time // when limit changed
	onWay  int       // of the backlog
	sends  []send
	freed  bool               // something was acknowledged since room was called
	wakeup context.CancelFunc // ends wait
}

// send is a batch that is not acknowledged altogether.
type send struct {
	left    int
	backlog bool
	at      time.Time
}

func (p *pace) sent(n int, backlog bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sends = append(p.sends, send{n, backlog, time.Now()})
	if backlog {
		p.onWay += n
	}
}

// room returns how many records of the backlog may be sent.
func (p *pace) room() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.limit == 0 {
		p.limit = firstOnWay
	}
	p.freed = false
	if room := p.limit - p.onWay; room*4 >= p.limit { // not one by one
		return room
	}
	return 0
}

// acked takes note that the next n records were acknowledged.
func (p *pace) acked(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n > 0 && len(p.sends) > 0 {
		s := &p.sends[0]
		k := min(n, s.left)
		n, s.left = n-k, s.left-k
		if s.backlog {
			p.onWay -= k
		}
		if s.left == 0 {
			p.adapt(*s)
			p.sends = p.sends[1:]
		}
	}
	if p.freed = true; p.wakeup != nil {
		p.wakeup()
	}
}

// adapt changes the limit by how long a batch took, if it was sent since the last change.
func (p *pace) adapt(s send) {
	if !s.backlog || s.at.Before(p.since) {
		return
	}
	before := p.limit
	switch took := time.Since(s.at); {
	case took < quick:
		p.limit = min(2*p.limit, mostOnWay)
	case took > slow:
		p.limit = max(p.limit/2, leastOnWay)
	}
	if p.limit != before {
		p.since = time.Now()
	}
}

// wait waits until there is something to read at the cursor, or something was acknowledged.
func (p *pace) wait(ctx context.Context, c *spoollog.Cursor) error {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	p.mu.Lock()
	p.wakeup = cancel
	if p.freed {
		cancel()
	}
	p.freed = false
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.wakeup = nil
		p.mu.Unlock()
	}()
	if err := c.Wait(inner); err != nil && inner.Err() == nil {
		return err
	}
	return ctx.Err()
}
