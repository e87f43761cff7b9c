package common

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec/notify"
)

// Content creates the records of a request as they are read: a small body may have millions.
type Content interface {
	// Left returns the number of records that are not created yet.
	Left() int
	// Next creates at least one and at most n records. It may return fewer records than it takes off Left: the others
	// cannot become records, and are no longer waited for.
	Next(n int) ([]record.Record, error)
}

// Requests holds the requests whose records are not all acknowledged, in order of arrival. It limits their number and
// the total size of their bodies.
type Requests struct {
	maxRequests int
	maxBytes    int64
	buffer      sdk.Buffer // memory budget of the host
	freed       notify.Signal

	mu       sync.Mutex
	numbers  Numbers    // guarded by mu
	requests int        // guarded by mu: admitted and unanswered
	bytes    int64      // guarded by mu: total size of their bodies
	queue    []*Request // guarded by mu: requests with unread records
	read     []part     // guarded by mu: read and unacknowledged
	records  int        // guarded by mu: unacknowledged records of queue and read
	// guarded by mu: since the last acknowledgement a request was refused or has timed out
	stalled bool
	arrived chan struct{} // holds a token when queue is not empty
	closed  chan struct{} // closed when no more requests are accepted
	close   func()        // closes closed once
}

// Request is a request that waits for the acknowledgement of its records.
type Request struct {
	content Content       // guarded by Requests.mu; nil when all records are created
	left    int           // unacknowledged records; guarded by Requests.mu
	done    chan struct{} // closed when all records are acknowledged
}

// Done returns a channel that is closed when all records of the request are acknowledged.
func (w *Request) Done() <-chan struct{} { return w.done }

// part is a number of records of a request that were read together.
type part struct {
	*Request
	n int
}

var errClosed = errors.New("the source has ended")

// NewRequests returns Requests with these limits. The numbers are the positions of the records.
func NewRequests(ctx context.Context, maxRequests int, maxBytes int64, numbers Numbers) *Requests {
	p := &Requests{maxRequests: maxRequests, maxBytes: maxBytes, buffer: sdk.NewBuffer(ctx), numbers: numbers,
		freed: notify.NewSignal(), arrived: make(chan struct{}, 1), closed: make(chan struct{})}
	p.close = sync.OnceFunc(func() { close(p.closed) })
	return p
}

// Close makes Next return an error, and closes Closed.
func (p *Requests) Close() { p.close() }

// Closed returns a channel that is closed by Close: the requests that wait are not acknowledged any more.
func (p *Requests) Closed() <-chan struct{} { return p.closed }

// Free releases the memory budget, after the last call of any other method.
func (p *Requests) Free() { p.buffer.Close() }

// Admit accepts a request with a body of at most bytes bytes, unless a limit is reached.
func (p *Requests) Admit(bytes int64) bool {
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

// memoryInterval is the time between two attempts to admit a request: nothing reports that the host has memory again.
const memoryInterval = 100 * time.Millisecond

// AdmitLater is like Admit, and waits while a limit is reached. It returns false if Close ends the wait.
func (p *Requests) AdmitLater(bytes int64) bool {
	for !p.Admit(bytes) {
		select {
		case <-p.freed:
		case <-time.After(memoryInterval):
		case <-p.closed:
			return false
		}
	}
	p.freed.Notify() // there may be room for another one
	return true
}

// Grow accepts another number of bytes of an admitted request, unless a limit is reached.
func (p *Requests) Grow(bytes int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.requests > 1 && p.bytes+bytes > p.maxBytes || !p.buffer.Take(int(bytes)) {
		p.stall()
		return false
	}
	p.bytes += bytes
	return true
}

// Release undoes Admit after the request is answered.
func (p *Requests) Release(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests--
	p.bytes -= bytes
	p.buffer.Add(-int(bytes))
	p.freed.Notify()
}

// Shrink returns the unused part of an admitted size.
func (p *Requests) Shrink(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bytes -= bytes
	p.buffer.Add(-int(bytes))
	p.freed.Notify()
}

// Add queues the records of a request.
func (p *Requests) Add(c Content) *Request {
	w := &Request{content: c, left: c.Left(), done: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = append(p.queue, w)
	p.records += w.left
	p.wake()
	return w
}

func (p *Requests) wake() {
	select {
	case p.arrived <- struct{}{}:
	default:
	}
}

// stall records that senders are blocked until the read records are acknowledged. The caller holds mu.
func (p *Requests) stall() {
	p.stalled = true
	p.wake()
}

func (p *Requests) isStalled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stalled || p.requests >= p.maxRequests
}

// Next waits for records of the requests and returns at most most. After Close it returns an error.
func (p *Requests) Next(ctx context.Context, most int) ([]record.Record, error) {
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
			return nil, sdk.Unavailable(errClosed)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (p *Requests) take(most int) (records []record.Record, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	bytes, each := takeBytes, 1
	for ; len(p.queue) > 0 && len(records) < most && bytes > 0; each = min(2*each, most) {
		w := p.queue[0]
		before := w.content.Left()
		made, err := w.content.Next(min(most-len(records), each))
		if err != nil { // the content was checked before Add
			return nil, fmt.Errorf("cannot create the records of a body: %w", err)
		}
		for i := range made {
			bytes -= made[i].Memory()
		}
		records = append(records, made...)
		p.sent(w, len(made))
		p.settle(w, before-w.content.Left()-len(made))
		if w.content.Left() == 0 {
			w.content = nil
			p.queue[0], p.queue = nil, p.queue[1:]
		}
	}
	if p.numbers.Set(records); len(p.queue) == 0 {
		p.queue = nil
	} else {
		p.wake()
	}
	return records, nil
}

// settle counts n records of w as acknowledged. The caller holds mu.
func (p *Requests) settle(w *Request, n int) {
	w.left -= n
	p.records -= n
	if n > 0 && w.left == 0 {
		close(w.done)
	}
}

// takeBytes is the approximate memory of the records that a Read returns, in bytes.
const takeBytes = 4 << 20

// sent records that n records of w were read.
func (p *Requests) sent(w *Request, n int) {
	if n == 0 {
		return
	}
	if last := len(p.read) - 1; last >= 0 && p.read[last].Request == w {
		p.read[last].n += n
		return
	}
	p.read = append(p.read, part{w, n})
}

// Ack acknowledges the next n read records.
func (p *Requests) Ack(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stalled = false
	for n > 0 && len(p.read) > 0 {
		first := &p.read[0]
		k := min(n, first.n)
		first.n -= k
		n -= k
		p.settle(first.Request, k)
		if first.n == 0 {
			p.read[0], p.read = part{}, p.read[1:]
		}
	}
}

// Waits returns the number of unacknowledged records.
func (p *Requests) Waits() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int64(p.records)
}

// GiveUp removes the unread records of a request whose sender has stopped waiting: the sender repeats the request. Read
// records cannot be withdrawn.
func (p *Requests) GiveUp(w *Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.queue, w); i >= 0 {
		p.queue = slices.Delete(p.queue, i, i+1)
		p.records -= w.content.Left()
		if w.left > w.content.Left() { // some were read
			p.stall()
		}
	} else if w.left > 0 {
		p.stall()
	}
}
