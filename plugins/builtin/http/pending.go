package http

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// pending holds the requests whose records are not all acknowledged, in order of arrival. It limits their number and
// the total size of their bodies.
type pending struct {
	maxRequests int
	maxBytes    int64
	buffer      sdk.Buffer            // memory budget of the host
	number      func([]record.Record) // sets the positions of records; called with mu held

	mu       sync.Mutex
	requests int        // guarded by mu: admitted and unanswered
	bytes    int64      // guarded by mu: total size of their bodies
	queue    []*waiting // guarded by mu: requests with unread records
	read     []part     // guarded by mu: read and unacknowledged
	records  int        // guarded by mu: unacknowledged records of queue and read
	// guarded by mu: since the last acknowledgement a request was refused or has timed out
	stalled bool
	arrived chan struct{} // holds a token when queue is not empty
	closed  chan struct{} // closed when no more requests are accepted
	close   func()        // closes closed once
}

// waiting is a request whose records are created as they are read.
type waiting struct {
	payloads *payloads // guarded by pending.mu
	metadata record.Metadata
	left     int           // unacknowledged records; guarded by pending.mu
	done     chan struct{} // closed when all records are acknowledged
}

// part is a number of records of a request that were read together.
type part struct {
	*waiting
	n int
}

var errClosed = errors.New("the source has ended")

func newPending(maxRequests int, maxBytes int64, buffer sdk.Buffer, number func([]record.Record)) *pending {
	p := &pending{maxRequests: maxRequests, maxBytes: maxBytes, buffer: buffer, number: number,
		arrived: make(chan struct{}, 1), closed: make(chan struct{})}
	p.close = sync.OnceFunc(func() { close(p.closed) })
	return p
}

// admit accepts a request with a body of at most bytes bytes, unless a limit is reached.
func (p *pending) admit(bytes int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.requests >= p.maxRequests || p.requests > 0 && p.bytes+bytes > p.maxBytes || !p.buffer.Take(int(bytes)) {
		p.stall()
		return false
	}
	p.requests++
	p.bytes += bytes
	return true
}

// release undoes admit after the request is answered.
func (p *pending) release(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests--
	p.bytes -= bytes
	p.buffer.Add(-int(bytes))
}

// shrink returns the unused part of an admitted size.
func (p *pending) shrink(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bytes -= bytes
	p.buffer.Add(-int(bytes))
}

// add queues the records of a request.
func (p *pending) add(payloads *payloads, metadata record.Metadata) *waiting {
	w := &waiting{payloads: payloads, metadata: metadata, left: payloads.left, done: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = append(p.queue, w)
	p.records += w.left
	p.wake()
	return w
}

func (p *pending) wake() {
	select {
	case p.arrived <- struct{}{}:
	default:
	}
}

// stall records that senders are blocked until the read records are acknowledged. The caller holds mu.
func (p *pending) stall() {
	p.stalled = true
	p.wake()
}

func (p *pending) isStalled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stalled || p.requests >= p.maxRequests
}

// next waits for records of the pending requests and returns at most most.
func (p *pending) next(ctx context.Context, most int) ([]record.Record, error) {
	for {
		if records, err := p.take(most); len(records) > 0 || err != nil {
			return records, err
		}
		if p.isStalled() {
			sdk.Stalled(ctx)
		}
		select {
		case <-p.arrived:
		case <-p.closed:
			return nil, errClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (p *pending) take(most int) (records []record.Record, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	bytes, each := takeBytes, 1
	for ; len(p.queue) > 0 && len(records) < most && bytes > 0; each = min(2*each, most) {
		w := p.queue[0]
		some, err := w.payloads.next(min(most-len(records), each))
		if err != nil { // all payloads were validated before add
			return nil, fmt.Errorf("cannot create the records of a body: %w", err)
		}
		made := recordsOf(some, w.metadata)
		for i := range made {
			bytes -= made[i].Memory()
		}
		records = append(records, made...)
		p.sent(w, len(made))
		if w.payloads.left == 0 {
			w.payloads, w.metadata = nil, nil
			p.queue[0], p.queue = nil, p.queue[1:]
		}
	}
	if p.number(records); len(p.queue) == 0 {
		p.queue = nil
	} else {
		p.wake()
	}
	return records, nil
}

// takeBytes is the approximate memory of the records that a Read returns, in bytes.
const takeBytes = 4 << 20

// sent records that n records of w were read.
func (p *pending) sent(w *waiting, n int) {
	if last := len(p.read) - 1; last >= 0 && p.read[last].waiting == w {
		p.read[last].n += n
		return
	}
	p.read = append(p.read, part{w, n})
}

// ack acknowledges the next n read records.
func (p *pending) ack(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stalled = false
	for n > 0 && len(p.read) > 0 {
		first := &p.read[0]
		k := min(n, first.n)
		first.n -= k
		first.left -= k
		p.records -= k
		n -= k
		if first.left == 0 {
			close(first.done)
		}
		if first.n == 0 {
			p.read[0], p.read = part{}, p.read[1:]
		}
	}
}

// waits returns the number of unacknowledged records.
func (p *pending) waits() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int64(p.records)
}

// giveUp removes the unread records of a request whose sender has stopped waiting: the sender repeats the request. Read
// records cannot be withdrawn.
func (p *pending) giveUp(w *waiting) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.queue, w); i >= 0 {
		p.queue = slices.Delete(p.queue, i, i+1)
		p.records -= w.payloads.left
		if w.left > w.payloads.left { // some were read
			p.stall()
		}
	} else if w.left > 0 {
		p.stall()
	}
}
