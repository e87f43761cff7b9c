package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/texts"
)

// deadLetterQueue is the dead-letter queue of a running pipeline: the destination of dead letters, and the window that
// bounds their number.
type deadLetterQueue struct {
	run   *run
	id    string // qualified
	stats *measure.Connector

	mu     sync.Mutex
	window DeadLetterWindow // guarded by mu

	write sync.Mutex                       // one record at a time
	over  bool                             // guarded by write: no more writes
	out   atomic.Pointer[deadLetterWriter] // replaced with write held
}

// deadLetterWriter writes dead letters to the queue's destination, one at a time.
type deadLetterWriter struct {
	*opened[connector.Destination]
	awaited atomic.Bool // a dead letter awaits its answer
	answers chan error  // capacity 1
}

func newDeadLetterWriter(o *opened[connector.Destination]) *deadLetterWriter {
	return &deadLetterWriter{opened: o, answers: make(chan error, 1)}
}

func newDeadLetterQueue(r *run, o *opened[connector.Destination]) *deadLetterQueue {
	q := &deadLetterQueue{
		run:    r,
		id:     o.id,
		stats:  &r.Stats.DeadLetters,
		window: NewDeadLetterWindow(&r.Declared.DeadLetterQueue),
	}
	q.out.Store(newDeadLetterWriter(o))
	return q
}

// setWindow replaces the nack window, which begins empty.
func (q *deadLetterQueue) setWindow(declared *spec.DeadLetterQueue) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.window = NewDeadLetterWindow(declared)
}

// acked counts n records in the window that were not refused.
func (q *deadLetterQueue) acked(n int) {
	q.mu.Lock()
	q.window.Ack(n)
	q.mu.Unlock()
}

// nack takes over a refused record: on return the record is durable in the dead-letter queue. An error must stop the
// pipeline.
func (q *deadLetterQueue) nack(ctx context.Context, l *DeadLetter) error {
	q.mu.Lock()
	var exceeded error
	if l.Stopped = !q.window.Nack(); l.Stopped {
		exceeded = q.window.Err()
	}
	q.mu.Unlock()
	if err := q.take(ctx, l); err != nil {
		return err
	}
	if l.Stopped {
		return refusedBy(l.RefusedBy,
			Permanent(fmt.Errorf("%s refused a record: %w; %w", l.RefusedBy, brief(l.Err), exceeded)))
	}
	return nil
}

// take keeps a dead letter and, unless it is Stopped, writes it to the queue.
func (q *deadLetterQueue) take(ctx context.Context, l *DeadLetter) error {
	if err := q.keep(ctx, l); err != nil || l.Stopped {
		return err
	}
	q.write.Lock()
	defer q.write.Unlock()
	if q.over {
		return cmp.Or(context.Cause(ctx), errNotRunning)
	}
	return q.put(ctx, l)
}

// brief returns err with a shortened text, so that the text behind it is not cut off. The dead letter has the whole
// error.
func brief(err error) error {
	const most = texts.MaxError / 2
	if text := err.Error(); len(text) > most {
		return errors.New(texts.Truncate(text, most))
	}
	return err
}

// put writes a dead letter. If the destination refuses it, for example because its system cannot represent a
// character, put writes it in a plainer form, and finally in a form that only says that the agent keeps it. A
// destination that refuses even that does not take dead letters at all, and the run ends, as it does when the
// destination fails in another way.
func (q *deadLetterQueue) put(ctx context.Context, l *DeadLetter) error {
	forms := []func() record.Record{l.Enveloped, l.Escaped}
	if q.run.Keep != nil { // the whole record is in the store
		forms = append(forms, l.Bare)
	}
	var refused error
	for i, form := range forms {
		deadLetter := record.NewBatch([]record.Record{form()})
		begin, size := time.Now(), deadLetter.Content()
		refusal, err := q.deliver(ctx, deadLetter)
		if err != nil {
			return err
		}
		if refusal == nil {
			if i > 0 {
				q.run.Log.Warn("the dead-letter queue refused a record, which was written to it in another form",
					"connector", q.id,
					"source", l.SourceID, "form", []string{"as it is", "escaped",
						"without the record, which the agent keeps"}[i], "err", refused)
			}
			q.stats.Records.Add(1)
			q.stats.Passed(1, size)
			q.stats.Writes.Observe(measure.DurationBounds, time.Since(begin).Seconds(), 1)
			return nil
		}
		if refusal = q.run.redacted(refusal); i == 0 {
			refused = refusal
			q.stats.Nacked.Add(1)
		}
	}
	return q.broken(refused)
}

// keep hands a dead letter to the dead-letter store, with an error without secrets.
func (q *deadLetterQueue) keep(ctx context.Context, l *DeadLetter) error {
	l.Err = q.run.redacted(l.Err)
	if q.run.Keep == nil {
		return nil
	}
	return q.run.Keep(ctx, l)
}

// redacted returns err without secrets.
func (p *Pipeline) redacted(err error) error {
	if p.Redact == nil {
		return err
	}
	return p.Redact(err)
}

// close waits for the current write and prevents further ones: a destination that is not torn down yet may still
// refuse records.
func (q *deadLetterQueue) close() error {
	q.write.Lock()
	defer q.write.Unlock()
	q.over = true
	return nil
}

// deliver writes a dead letter and waits for the answer, which may be a refusal of this dead letter. If that takes too
// long, it ends the run with an error of the queue: the destination that refused the record waits for the queue and
// must not be reported as the one that does not respond.
func (q *deadLetterQueue) deliver(ctx context.Context, deadLetter *record.Batch) (refusal, err error) {
	out := q.out.Load()
	limit := q.run.AckTimeout
	if limit > 0 && limit+out.batching.Takes(1) > 0 { // avoids overflow
		limit += out.batching.Takes(1)
		defer time.AfterFunc(limit, func() {
			q.run.fail(failedIn(q.id,
				fmt.Errorf("dead-letter queue %s has not responded for %v, although a record was written to it", q.id,
					limit)))
		}).Stop()
	}
	out.awaited.Store(true)
	if err := out.connector.Write(ctx, deadLetter); err != nil {
		return nil, q.broken(err)
	}
	// no other dead letter comes before this one is settled
	if g, ok := out.connector.(connector.Gatherer); ok && out.batching.Gathers() {
		if err := g.WriteOut(ctx); err != nil {
			return nil, q.broken(err)
		}
	}
	select {
	case err := <-out.answers:
		if isLost(err) {
			return nil, q.broken(err)
		}
		return err, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// broken wraps an error of the destination.
func (q *deadLetterQueue) broken(err error) error {
	return failedIn(q.id, permanentIfRefused(fmt.Errorf("cannot write to the dead-letter queue %s: %w", q.id, err)))
}

// settledBy returns the function through which the destination of w reports results. It ignores results of a
// destination that was replaced.
func (q *deadLetterQueue) settledBy(w *deadLetterWriter) func(n int, err error) {
	return func(n int, err error) {
		switch {
		case q.out.Load() != w:
		case n == 0 && err != nil:
			q.run.fail(q.broken(err))
		case n == 1 && w.awaited.CompareAndSwap(true, false):
			w.answers <- err
		case n > 0:
			q.run.fail(failedIn(q.id, Permanent(fmt.Errorf("cannot trust the dead-letter queue %s: %w", q.id,
				errSurplus))))
		}
	}
}
