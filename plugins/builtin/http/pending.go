package http

import (
	"context"
	"errors"
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
	buffer      sdk.Buffer // of the host

	mu       sync.Mutex
	requests int           // guarded by mu: admitted and not answered
	bytes    int64         // guarded by mu: of their bodies
	queue    []*waiting    // guarded by mu: not read
	read     []*waiting    // guarded by mu: read and not acknowledged
	records  int           // guarded by mu: of queue and read, not acknowledged
	stalled  bool          // guarded by mu: a request was refused, or one waited in vain, since records were acknowledged
	arrived  chan struct{} // holds a token when queue is not empty
	closed   chan struct{} // closed when nothing is taken any more
	close    func()        // closes it, once
}

// waiting is a request with its records.
type waiting struct {
	records []record.Record
	left    int           // records not acknowledged; guarded by pending.mu
	done    chan struct{} // closed when all are
}

var errClosed = errors.New("the source has ended")

func newPending(maxRequests int, maxBytes int64, buffer sdk.Buffer) *pending {
	p := &pending{maxRequests: maxRequests, maxBytes: maxBytes, buffer: buffer, arrived: make(chan struct{}, 1), closed: make(chan struct{})}
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

// add queues the records of a request; number is called to number them in the order of the queue.
func (p *pending) add(records []record.Record, number func([]record.Record)) *waiting {
	w := &waiting{records: records, left: len(records), done: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	number(records)
	p.queue = append(p.queue, w)
	p.records += len(records)
	p.wake()
	return w
}

func (p *pending) wake() {
	select {
	case p.arrived <- struct{}{}:
	default:
	}
}

// stall notes, with mu held, that senders cannot go on before what was read is acknowledged.
func (p *pending) stall() {
	p.stalled = true
	p.wake()
}

func (p *pending) isStalled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stalled || p.requests >= p.maxRequests
}

// next returns the records of requests that are there, about most of them.
func (p *pending) next(ctx context.Context, most int) ([]record.Record, error) {
	for {
		if records := p.take(most); len(records) > 0 {
			return records, nil
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

func (p *pending) take(most int) []record.Record {
	p.mu.Lock()
	defer p.mu.Unlock()
	requests, n := 0, 0
	for ; requests < len(p.queue) && n < most; requests++ {
		n += len(p.queue[requests].records)
	}
	var records []record.Record
	if requests > 1 {
		records = make([]record.Record, 0, n)
	}
	for i, w := range p.queue[:requests] {
		if requests == 1 {
			records = w.records
		} else {
			records = append(records, w.records...)
		}
		p.queue[i], w.records = nil, nil
		p.read = append(p.read, w)
	}
	if p.queue = p.queue[requests:]; len(p.queue) == 0 {
		p.queue = nil
	} else {
		p.wake()
	}
	return records
}

// ack acknowledges the next n records that were read.
func (p *pending) ack(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stalled = false
	for n > 0 && len(p.read) > 0 {
		w := p.read[0]
		k := min(n, w.left)
		w.left -= k
		p.records -= k
		if n -= k; w.left == 0 {
			close(w.done)
			p.read[0], p.read = nil, p.read[1:]
		}
	}
}

// waits returns how many records are not acknowledged.
func (p *pending) waits() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int64(p.records)
}

// giveUp takes a request out of the queue whose sender does not wait any more: it will send
// it again. One that was read stays, as it cannot be called back.
func (p *pending) giveUp(w *waiting) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.queue, w); i >= 0 {
		p.queue = slices.Delete(p.queue, i, i+1)
		p.records -= w.left
	} else if w.left > 0 {
		p.stall()
	}
}
