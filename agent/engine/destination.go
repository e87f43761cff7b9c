package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec/notify"
)

// Bounds of the size of one Write when several small batches wait: coalescing saves a destination the cost of further
// calls, and never waits for more batches. Larger batches are joined, too, for a destination whose Write takes much
// longer than joining, for example because it waits for an answer or a disk.
const (
	coalesceRecords     = 64
	coalesceSlowRecords = 4096
	coalesceBytes       = 1 << 20
	slowWrite           = time.Millisecond
	slowRecord          = time.Microsecond
)

// Bounds of the queue of a destination, in batches and in bytes of memory. A single batch may be larger. The window of
// a source bounds the records read, and processors may make larger ones.
const (
	queueLength = 64
	queueBytes  = 64 << 20
)

// waiting is a batch in the queue of a destination.
type waiting struct {
	inFlight
	size int64 // bytes that count as queued
}

// destinationRun drives one destination of a running pipeline: one goroutine writes, and the destination reports its
// results to settled.
type destinationRun struct {
	run    *run
	id     string                                        // qualified
	index  int                                           // in settle.Batch
	out    atomic.Pointer[opened[connector.Destination]] // replaced while write pauses
	stage  stage                                         // for its own processors
	before *Tap                                          // records before its processors
	tap    *Tap                                          // records as written
	stats  *measure.Connector
	queue  chan waiting
	queued atomic.Int64  // bytes of the batches in queue, or about to enter it
	room   notify.Signal // queued has decreased
	ended  chan struct{} // closed when everything is written and settled

	gate   *writeGate      // held during a write, by write or by the reader
	writes measure.Sampler // guarded by gate
	parts  []part          // guarded by gate: the parts to write
	joined []*record.Batch // guarded by gate: the batches to join
	only   [1]inFlight     // guarded by gate: the batch that the reader writes
	slow   atomic.Bool     // the last Write of a large batch was slow

	writing    atomic.Bool // a call of Write has not returned
	incomplete atomic.Bool // write out the gathered records after the queued ones
	renewed    sync.Once   // logs once that the connector was replaced for that
	unclaimed  atomic.Bool // it waits for permission to write records

	mu       sync.Mutex
	written  uint64        // guarded by mu: records handed to the connector, or about to be
	results  uint64        // guarded by mu: records settled
	pending  []part        // guarded by mu: written and not settled, in order, starting at index first
	first    int           // guarded by mu
	settling bool          // guarded by mu: settled is processing results
	empty    notify.Signal // pending is empty and settled is not processing results
}

// part is the share of an in-flight batch that goes to the destination; n records in it are not settled yet.
type part struct {
	inFlight
	batch *record.Batch
	n     int
}

func newDestinationRun(r *run, index int, o *opened[connector.Destination]) *destinationRun {
	d := &destinationRun{run: r, id: o.id, index: index, stage: newStage(o.id), before: r.Taps.Acquire(TapIn(o.id)),
		tap: r.Taps.Acquire(o.id), stats: r.Stats.Destination(o.id),
		queue: make(chan waiting, queueLength), room: notify.NewSignal(),
		gate: newWriteGate(), ended: make(chan struct{}), empty: notify.NewSignal()}
	d.out.Store(o)
	return d
}

func (d *destinationRun) doing() string { return "writing to destination " + d.id }

// write hands queued batches to the destination until the queue is closed, and then waits until they are settled.
func (d *destinationRun) write(ctx context.Context) error {
	var batches []inFlight
	for {
		var open bool
		if batches, open = d.next(ctx, batches[:0]); !open {
			break
		}
		d.gate.Lock()
		err := d.put(ctx, batches)
		if err == nil {
			err = d.completeNow(ctx)
		}
		d.gate.Unlock()
		if err != nil {
			return err
		}
		if d.gathers() {
			d.run.relieve()
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	d.gate.Lock() // a source may still be writing a batch that it read
	err := d.flush(ctx)
	d.gate.Unlock()
	if err != nil {
		return err
	}
	close(d.ended)
	return nil
}

// put writes batches, with gate held.
func (d *destinationRun) put(ctx context.Context, batches []inFlight) error {
	for more := true; more; {
		var err error
		batches, more, err = d.prepare(ctx, batches)
		for parts := d.parts; err == nil && len(parts) > 0; {
			n := together(parts)
			err = d.putParts(ctx, parts[:n])
			parts = parts[n:]
		}
		clear(d.parts)
		if err != nil {
			return err
		}
	}
	return nil
}

// together returns how many of the first parts are written in one Write: a single one of lines, or those before it.
func together(parts []part) int {
	for i, p := range parts {
		if _, ok := p.batch.Lines(); ok {
			return max(1, i)
		}
	}
	return len(parts)
}

// putParts writes the parts together.
func (d *destinationRun) putParts(ctx context.Context, parts []part) error {
	if wait := d.run.WaitToWrite; wait != nil {
		d.unclaimed.Store(true)
		err := wait(ctx)
		d.unclaimed.Store(false)
		if err != nil {
			return err
		}
	}
	b, err := d.expect(parts)
	if err != nil {
		return err
	}
	d.tap.Publish(b)
	d.stats.Passed(b.Len(), b.Content())
	if n := b.Len(); n >= coalesceRecords {
		begin := time.Now()
		defer func() {
			took := time.Since(begin)
			d.slow.Store(took > slowWrite && took > time.Duration(n)*slowRecord)
		}()
	}
	d.writing.Store(true)
	defer d.writing.Store(false)
	if err := d.writes.Time(&d.stats.Writes, &d.stats.Busy, func() (int, error) {
		return b.Len(), d.out.Load().connector.Write(ctx, b)
	}); err != nil {
		return d.broken("write to", err)
	}
	return nil
}

// gathers reports whether the destination gathers records over several writes.
func (d *destinationRun) gathers() bool { return d.out.Load().batching.Gathers() }

// holds reports whether records were written to the destination that it has not settled.
func (d *destinationRun) holds() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.idle() || d.settling
}

// complete makes the destination write out its gathered records once its queue is written.
func (d *destinationRun) complete() {
	d.incomplete.Store(true)
	d.stage.Wake.Notify()
}

// completeNow writes out the gathered records after a call of complete, if a source still starves and nothing is
// queued. The caller holds gate. A source that starves queues nothing more, so the queue must be looked at last: the
// source may have queued the records that it waits for just before.
func (d *destinationRun) completeNow(ctx context.Context) error {
	if !d.incomplete.Swap(false) || !d.run.starves() {
		return nil
	}
	if len(d.queue) > 0 {
		d.incomplete.Store(true)
		return nil
	}
	return d.writeOut(ctx)
}

// writeOut makes the destination write out its gathered records. The caller holds gate. Writes may follow.
func (d *destinationRun) writeOut(ctx context.Context) error {
	if !d.holds() {
		return nil
	}
	out, ok := d.out.Load().connector.(connector.Gatherer)
	if !ok {
		return d.renew(ctx)
	}
	if err := out.WriteOut(ctx); err != nil {
		return d.broken("flush", err)
	}
	return d.waitSettled(ctx)
}

// flush makes the destination write out the records it holds back, and waits until they are settled. No Write may
// follow.
func (d *destinationRun) flush(ctx context.Context) error {
	if err := d.out.Load().connector.Flush(ctx); err != nil {
		return d.broken("flush", err)
	}
	return d.waitSettled(ctx)
}

// enqueue queues f once there is room.
func (d *destinationRun) enqueue(ctx context.Context, f inFlight) error {
	size := int64(f.Size())
	for n := d.queued.Load(); n > 0 && n+size > queueBytes; n = d.queued.Load() {
		select {
		case <-d.room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	d.queued.Add(size)
	d.room.Notify() // other sources may wait, too
	select {
	case d.queue <- waiting{f, size}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// dequeued returns the batch of w, which was received from the queue.
func (d *destinationRun) dequeued(w waiting) inFlight {
	d.queued.Add(-w.size)
	d.room.Notify()
	return w.inFlight
}

// pause stops write before its next Write, and flushes the destination. It returns when all written records are
// settled; write continues when released is closed.
func (d *destinationRun) pause(ctx context.Context, released <-chan struct{}) error {
	begun, err := d.gate.Pause(ctx, d.ended, released)
	if !begun {
		return err
	}
	return abandonable(ctx, func() error {
		return d.flush(ctx)
	}, func() string { return "flushing destination " + d.id })
}

// broken wraps an error of the destination.
func (d *destinationRun) broken(doing string, err error) error {
	return failedIn(d.id, fmt.Errorf("cannot %s destination %s: %w", doing, d.id, err))
}

// next waits for a batch and returns it with those queued behind it. open is false when the queue was closed and is
// empty, or ctx has ended. It returns no batch when only the processors need attention.
func (d *destinationRun) next(ctx context.Context, batches []inFlight) (_ []inFlight, open bool) {
	for len(batches) == 0 {
		select {
		case p := <-d.gate.Requests(): // requests take precedence over queued batches
			if d.gate.Yield(p); ctx.Err() != nil {
				return nil, false
			}
			continue
		default:
		}
		select {
		case w, ok := <-d.queue:
			if !ok {
				return nil, false
			}
			batches = append(batches, d.dequeued(w))
		case <-d.stage.Wake:
			return nil, true
		case p := <-d.gate.Requests():
			if d.gate.Yield(p); ctx.Err() != nil {
				return nil, false
			}
		case <-ctx.Done():
			return nil, false
		}
	}
	if _, ok := batches[0].Records.Lines(); ok {
		return batches, true
	}
	records, bytes, most := batches[0].Records.Len(), batches[0].Size(), coalesceRecords
	if d.slow.Load() {
		most = coalesceSlowRecords
	}
	for records < most && bytes < coalesceBytes {
		select {
		case w, ok := <-d.queue:
			if !ok {
				return batches, true
			}
			f := d.dequeued(w)
			batches = append(batches, f)
			records, bytes = records+f.Records.Len(), bytes+f.Size()
		default:
			return batches, true
		}
	}
	return batches, true
}

// expect records that the results of the parts come next, and joins the parts. It precedes Write, since Write may
// already report results.
func (d *destinationRun) expect(parts []part) (*record.Batch, error) {
	d.joined = d.joined[:0]
	d.mu.Lock()
	if len(d.pending) == cap(d.pending) && d.first > 0 { // reuse the array instead of growing it
		n := copy(d.pending, d.pending[d.first:])
		clear(d.pending[n:])
		d.pending, d.first = d.pending[:n], 0
	}
	for _, p := range parts {
		if p.trace != nil {
			p.trace.writes[d.index] = tracedWrite{begin: time.Now()}
		}
		d.joined = append(d.joined, p.batch)
		d.pending = append(d.pending, p)
		d.written += uint64(p.n)
	}
	d.mu.Unlock()
	b, err := record.Join(d.joined)
	clear(d.joined)
	if err != nil {
		return nil, fmt.Errorf("cannot join batches for destination %s: %w", d.id, err)
	}
	return b, nil
}

var errSurplus = errors.New("it answered for more records than were written")

// settledBy returns the function through which o reports results. It ignores results of a connector that was replaced.
func (d *destinationRun) settledBy(o *opened[connector.Destination]) func(n int, refused error) {
	return func(n int, refused error) {
		if d.out.Load() == o {
			d.settled(n, refused)
		}
	}
}

// settled is called by the destination: the next n records are durable, or refused. Once the run has failed, results
// are ignored: the failure may concern a record before them.
func (d *destinationRun) settled(n int, refused error) {
	if d.run.ctx.Err() != nil {
		return
	}
	if n == 0 && refused != nil {
		d.run.fail(d.broken("write to", refused))
		return
	}
	if refused != nil {
		d.stats.Nacked.Add(uint64(n))
	} else {
		d.stats.Records.Add(uint64(n))
	}
	now := time.Now()
	for n > 0 {
		p, k := d.pop(n)
		if p.Batch == nil {
			d.run.fail(failedIn(d.id, Permanent(fmt.Errorf("cannot trust "+
				"destination %s: %w", d.id, errSurplus))))
			return
		}
		n -= k
		if refused != nil {
			if err := d.refuse(p, k, refused); err != nil {
				d.run.fail(err)
				return
			}
			now = time.Now()
		}
		if p.trace != nil {
			d.traceSettled(p, k, refused)
		}
		p.src().settle(p.inFlight, d.index, k, refused != nil, now)
		if k == p.n {
			p.src().done(d.index)
		}
	}
	d.mu.Lock()
	d.settling = false
	empty := d.idle()
	d.mu.Unlock()
	if empty {
		d.empty.Notify()
	}
}

// idle reports whether all written records are settled. The caller holds mu.
func (d *destinationRun) idle() bool { return d.first == len(d.pending) }

// pop removes up to n records from the front of pending and returns their part, as it was before.
func (d *destinationRun) pop(n int) (part, int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.idle() {
		return part{}, 0
	}
	p := d.pending[d.first]
	k := min(n, p.n)
	d.settling = true
	d.results += uint64(k)
	if d.pending[d.first].n -= k; d.pending[d.first].n == 0 {
		d.pending[d.first] = part{}
		d.first++
	}
	if d.idle() {
		d.pending, d.first = d.pending[:0], 0
	}
	return p, k
}

// refuse sends the first k records of p to the dead-letter queue.
func (d *destinationRun) refuse(p part, k int, cause error) error {
	records, err := p.batch.Records()
	if err != nil {
		return fmt.Errorf("cannot decode records for the dead-letter queue: %w", err)
	}
	d.stats.Refusals.Note(d.run.redacted(cause).Error(), time.Now())
	at := len(records) - p.n
	for i := at; i < at+k; i++ {
		if err := d.refuseAt(p, i, records[i], cause); err != nil {
			return err
		}
	}
	return nil
}

// waitSettled waits until every record written has its result.
func (d *destinationRun) waitSettled(ctx context.Context) error {
	for {
		d.mu.Lock()
		done := d.idle() && !d.settling
		d.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-d.empty:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
