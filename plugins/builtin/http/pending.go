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

// pending are the requests that wait for their records to be acknowledged, in the order in
// which they came. It bounds their number and the bytes of their bodies.
type pending struct {
	maxRequests int
	maxBytes    int64
	buffer      sdk.Buffer            // of the host
	number      func([]record.Record) // gives records their positions; called with mu held

	mu       sync.Mutex
	requests int        // guarded by mu: admitted and not answered
	bytes    int64      // guarded by mu: of their bodies
	queue    []*waiting // guarded by mu: not read to their end
	read     []part     // guarded by mu: read and not acknowledged
	records  int        // guarded by mu: of queue and read, not acknowledged
	// guarded by mu: a request was refused, or one waited in vain, since records were acknowledged
	stalled bool
	arrived chan struct{} // holds a token when queue is not empty
	closed  chan struct{} // closed when nothing is taken any more
	close   func()        // closes it, once
}

// waiting is a request with its records, which are created as they are read.
type waiting struct {
	payloads *payloads // guarded by pending.mu
	metadata record.Metadata
	left     int           // records not acknowledged; guarded by pending.mu
	done     chan struct{} // closed when all are
}

// part are n records of a request that were read in one go.
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

// admit takes up a request whose body has at most so many bytes, unless there are too many.
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

// release ends what admit began.
func (p *pending) release(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests--
	p.bytes -= bytes
	p.buffer.Add(-int(bytes))
}

// shrink gives back what a body turned out not to need.
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

// stall records that senders cannot proceed before the records that were read are acknowledged. The caller holds mu.
func (p *pending) stall() {
	p.stalled = true
	p.wake()
}

func (p *pending) isStalled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stalled || p.requests >= p.maxRequests
}

// next returns the next records of the pending requests, up to a limit.
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
		if err != nil { // all was checked before it was added
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

// takeBytes is the approximate memory of the records of one Read.
const takeBytes = 4 << 20

// sent notes that n records of w were read.
func (p *pending) sent(w *waiting, n int) {
	if last := len(p.read) - 1; last >= 0 && p.read[last].waiting == w {
		p.read[last].n += n
		return
	}
	p.read = append(p.read, part{w, n})
}

// ack acknowledges the next n records that were read.
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

// waits returns how many records are not acknowledged.
func (p *pending) waits() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int64(p.records)
}

// giveUp takes the records of a request out of the queue whose sender does not wait any more: it will send
// it again. Those that were read stay, as they cannot be called back.
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
