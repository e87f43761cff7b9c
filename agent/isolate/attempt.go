package isolate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/spoollog"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/notify"
)

// attempt is a time in which one instance of the real destination is used.
type attempt struct {
	*feeder
	ctx    context.Context
	fail   context.CancelCauseFunc
	window engine.DeadLetterWindow // used by settle
	alone  bool                    // write the next record alone
	real   connector.Destination
	direct connector.Destination // real, once records are passed on to it directly

	mu      sync.Mutex
	pending []entry       // guarded by mu: written and not settled, in order
	count   int           // guarded by mu: records in pending, and those that are being refused
	bytes   int           // guarded by mu: memory of pending
	answers uint64        // guarded by mu: calls of settle
	passes  bool          // guarded by mu: results are those of records that were passed on directly
	since   time.Time     // guarded by mu: of the last answer, or when pending got its first records
	changed notify.Signal // pending has less
}

// entry is a batch on its way, without the records that are settled.
type entry struct {
	records []record.Record
	offsets []uint64
	bytes   int
}

func newAttempt(f *feeder) *attempt {
	a := &attempt{feeder: f, changed: notify.NewSignal(), window: f.queue.Window()}
	a.ctx, a.fail = context.WithCancelCause(f.ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.attempt, f.state = a, spec.BacklogOpening
	a.alone = f.failures > 0 && !f.batching.Gathers()
	return a
}

// run writes the log to the real destination until the feeder stops or the destination fails. Before it returns, the
// destination is torn down, unless the attempt is direct.
func (a *attempt) run() (err error) {
	defer func() {
		if a.direct == nil {
			a.finish(err)
		}
	}()
	if a.real = a.take(); a.real == nil {
		if a.real, err = a.start(a.ctx); err != nil {
			return err
		}
	}
	if c, ok := a.real.(connector.StopAndWaiter); ok && a.single && !a.batching.Gathers() {
		c.StopAndWait()
	}
	if err := a.real.Open(a.ctx, a.settle); err != nil {
		return err
	}
	a.setState(spec.BacklogWriting)
	if a.Limits == nil {
		a.setState(spec.BacklogDraining)
	}
	watching, stopWatching := context.WithCancel(a.ctx)
	var watch sync.WaitGroup
	watch.Go(func() { a.watch(watching) })
	defer func() { stopWatching(); watch.Wait() }()
	if err := a.write(); err != nil {
		return cmp.Or(context.Cause(a.ctx), err)
	}
	return nil
}

// held implements engine.Isolated for the records on their way.
func (a *attempt) held() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	patience := a.batching.Patience(uint64(a.count))
	if a.count == 0 || patience < 0 || time.Since(a.since) < patience {
		return time.Time{}
	}
	return a.since.Add(patience)
}

// finish ends the attempt, and returns when the cursor is saved as far as records are settled.
func (a *attempt) finish(err error) {
	a.fail(cmp.Or(err, errEnded))
	if a.real != nil {
		if err := a.tearDown(a.ctx, a.real); err != nil {
			a.Log.Warn("cannot tear down", "connector", a.ID, "err", err)
		}
	}
	a.mu.Lock()
	a.account(-a.bytes)
	a.pending, a.count = nil, 0
	a.mu.Unlock()
	a.feeder.mu.Lock()
	a.feeder.attempt = nil
	a.feeder.mu.Unlock()
	a.feeder.rewind()
}

// write writes the records of the log until the feeder stops, or until the log is empty and no longer declared.
func (a *attempt) write() error {
	c := a.log.Cursor(a.reader.Low())
	defer c.Close()
	for {
		if stopped, err := a.waitForRoom(); err != nil {
			return err
		} else if stopped {
			return a.flushReal()
		}
		if a.Memory != nil {
			c.Bound(max(a.Memory.Room(), 1), nil)
		}
		records, offsets, err := c.Read(math.MaxUint64)
		switch {
		case len(records) > 0:
			if a.alone {
				if err := a.putAlone(records[:1], offsets[:1]); err != nil {
					return err
				}
				records, offsets = records[1:], offsets[1:]
			}
			if err := a.put(records, offsets); err != nil {
				return err
			}
		case err != nil:
			return err
		case a.Limits == nil:
			return a.handOver()
		default:
			if err := a.waitForRecords(c); err != nil {
				return err
			}
		}
	}
}

// putAlone writes the first record of an attempt after a failure and waits until it is settled. If that record causes
// the failure, the destination does not get the records behind it in every attempt.
func (a *attempt) putAlone(records []record.Record, offsets []uint64) error {
	a.alone = false
	if err := a.put(records, offsets); err != nil {
		return err
	}
	return a.waitSettled()
}

// put writes a batch, which may be empty.
func (a *attempt) put(records []record.Record, offsets []uint64) error {
	if len(records) == 0 {
		return nil
	}
	restorePositions(records)
	b := record.NewBatch(records)
	e := entry{records, offsets, b.Memory()}
	a.mu.Lock()
	if a.count == 0 {
		a.since = time.Now()
	}
	a.pending = append(a.pending, e)
	a.count += len(records)
	a.account(e.bytes)
	a.mu.Unlock()
	return a.real.Write(a.ctx, b)
}

// account adds n bytes to those of pending, with mu held.
func (a *attempt) account(n int) {
	a.bytes += n
	if a.Memory != nil {
		a.Memory.Add(n)
	}
}

// waitForRoom waits until more records may be on their way. stopped reports that the feeder stops.
func (a *attempt) waitForRoom() (stopped bool, err error) {
	for {
		a.mu.Lock()
		room := a.count == 0 || a.count < maxRecords && a.bytes < maxBytes || int64(a.count) < a.batching.Size
		a.mu.Unlock()
		switch {
		case a.ctx.Err() != nil:
			return false, context.Cause(a.ctx)
		case a.reading.Err() != nil:
			return true, nil
		case room:
			return false, nil
		}
		select {
		case <-a.changed:
		case <-a.reading.Done():
		case <-a.ctx.Done():
		}
	}
}

// waitForRecords waits until there are records at the cursor, or the feeder stops.
func (a *attempt) waitForRecords(c *spoollog.Cursor) error {
	ctx, cancel := context.WithCancel(a.ctx)
	defer cancel()
	defer context.AfterFunc(a.reading, cancel)()
	err := c.Wait(ctx)
	if a.ctx.Err() != nil {
		return context.Cause(a.ctx)
	}
	if a.reading.Err() != nil {
		return nil // waitForRoom finds that the feeder stops
	}
	return err
}

// flushReal makes the real destination settle all records written to it. No write follows.
func (a *attempt) flushReal() error {
	if err := a.real.Flush(a.ctx); err != nil {
		return err
	}
	return a.waitSettled()
}

// waitSettled waits until the real destination has settled all records written to it.
func (a *attempt) waitSettled() error {
	for {
		a.mu.Lock()
		n := a.count
		a.mu.Unlock()
		if n == 0 {
			return nil
		}
		select {
		case <-a.changed:
		case <-a.ctx.Done():
			return context.Cause(a.ctx)
		}
	}
}

// settle is called by the real destination: the next n records are durable, or refused.
func (a *attempt) settle(n int, refused error) {
	a.mu.Lock()
	passes := a.passes
	a.answers++
	a.mu.Unlock()
	switch {
	case passes:
		a.settled(n, refused)
		return
	case a.ctx.Err() != nil:
		return
	case n == 0 && refused != nil:
		a.fail(refused)
		return
	}
	for n > 0 {
		records, next, err := a.pop(n)
		if err != nil {
			a.fail(err)
			return
		}
		if n -= len(records); refused == nil {
			a.window.Ack(len(records))
		} else if err := a.refuse(records, refused); err != nil {
			a.fail(err)
			return
		}
		a.mu.Lock()
		a.since = time.Now()
		a.count -= len(records)
		a.mu.Unlock()
		a.settledTo(next)
	}
	a.passed()
	a.changed.Notify()
}

// pop removes up to n records from the front of pending, and returns them with the offset after them.
func (a *attempt) pop(n int) (records []record.Record, next uint64, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.pending) == 0 {
		return nil, 0, fmt.Errorf("destination %s answered for more records than were written", a.ID)
	}
	e := &a.pending[0]
	n = min(n, len(e.records))
	records, next = e.records[:n], e.offsets[n-1]+1
	e.records, e.offsets = e.records[n:], e.offsets[n:]
	if len(e.records) == 0 {
		a.account(-e.bytes)
		a.pending = slices.Delete(a.pending, 0, 1)
	}
	return records, next, nil
}

// refuse sends records that the real destination refused to the dead-letter queue.
func (a *attempt) refuse(records []record.Record, cause error) error {
	for i := range records {
		l := engine.DeadLetter{SourceID: a.sourceOf(&records[i]), Record: records[i], RefusedBy: a.ID, Destination: true,
			Entry: a.ID, Err: cause}
		l.Stopped = !a.window.Nack()
		if err := a.queue.Take(a.ctx, &l); err != nil {
			return err
		}
		if l.Stopped {
			return fmt.Errorf("%s refused a record: %w; %w", a.ID, cause, a.window.Err())
		}
	}
	return nil
}

// sourceOf returns the source of a record. A record that a processor made without metadata counts as one of the first
// source.
func (a *attempt) sourceOf(r *record.Record) string {
	id := connector.DeclaredID(r.Metadata.Get(record.KeySourceConnectorID))
	if slices.Contains(a.Sources, id) || len(a.Sources) == 0 {
		return id
	}
	return a.Sources[0]
}

// writeOutReal makes the real destination write out the gathered records. A connector that is not a Gatherer does that
// only when it ends, so a new instance replaces it.
func (a *attempt) writeOutReal(ctx context.Context) error {
	if g, ok := a.real.(connector.Gatherer); ok {
		return g.WriteOut(ctx)
	}
	if err := a.real.Flush(ctx); err != nil {
		return err
	}
	if err := a.tearDown(ctx, a.real); err != nil {
		a.Log.Warn("cannot tear down", "connector", a.ID, "err", err)
	}
	var err error
	if a.real, err = a.start(ctx); err != nil {
		return err
	}
	return a.real.Open(ctx, a.settle)
}

// handOver makes the attempt direct, once everything in the log is settled, and removes the log.
func (a *attempt) handOver() error {
	if a.batching.Gathers() {
		if err := a.writeOutReal(a.ctx); err != nil {
			return err
		}
	}
	if err := a.waitSettled(); err != nil {
		return err
	}
	a.rewind()
	if err := a.remove(); err != nil {
		return err
	}
	a.mu.Lock()
	a.passes, a.direct = true, a.real
	a.mu.Unlock()
	close(a.empty)
	return nil
}

// watch fails the attempt if the real destination holds records and does not answer in time.
func (a *attempt) watch(ctx context.Context) {
	if a.AnswerTimeout <= 0 {
		return
	}
	ticker := time.NewTicker(max(a.AnswerTimeout/4, time.Millisecond))
	defer ticker.Stop()
	last, at := uint64(0), time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			a.mu.Lock()
			answers, count := a.answers, uint64(a.count)
			a.mu.Unlock()
			if answers != last || count == 0 || a.batching.Waits(count) {
				last, at = answers, now
			} else if now.Sub(at)-a.AnswerTimeout >= a.batching.Takes(count) {
				a.fail(fmt.Errorf("destination %s has not responded for %v, although records were written to it", a.ID,
					a.AnswerTimeout))
				return
			}
		}
	}
}
