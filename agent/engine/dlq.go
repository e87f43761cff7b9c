package engine

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// deadLetters is the dead-letter queue of a running pipeline: a destination for records
// that were refused, and the window that says how many of them are tolerated.
type deadLetters struct {
	run   *run
	id    string // qualified
	stats *Stats

	mu     sync.Mutex
	window nackWindow // guarded by mu

	write sync.Mutex                       // one record at a time
	out   atomic.Pointer[deadLetterWriter] // replaced with write held
}

// deadLetterWriter writes dead letters to the queue's destination, one at a time.
type deadLetterWriter struct {
	*opened[connector.Destination]
	awaited atomic.Bool // a dead letter has no answer yet
	answers chan error  // capacity 1
}

func newDeadLetterWriter(o *opened[connector.Destination]) *deadLetterWriter {
	return &deadLetterWriter{opened: o, answers: make(chan error, 1)}
}

func newDeadLetters(r *run, o *opened[connector.Destination]) *deadLetters {
	q := &deadLetters{run: r, id: o.id, stats: &r.Stats.DeadLetters, window: newNackWindow(&r.Declared.DLQ)}
	q.out.Store(newDeadLetterWriter(o))
	return q
}

// setWindow replaces the nack window, which begins empty.
func (q *deadLetters) setWindow(declared *spec.DLQ) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.window = newNackWindow(declared)
}

// errThreshold says that more records were refused than the pipeline tolerates.
var errThreshold = errors.New("the dead-letter queue's window-nack-threshold is exceeded")

// acked counts n records in the window that were not refused.
func (q *deadLetters) acked(n int) {
	q.mu.Lock()
	q.window.ack(n)
	q.mu.Unlock()
}

// nack takes over a refused record: on return it is durable in the dead-letter queue.
// An error is to stop the pipeline.
func (q *deadLetters) nack(ctx context.Context, sourceID string, r record.Record, node string, cause error) error {
	q.mu.Lock()
	tolerated := q.window.nack()
	q.mu.Unlock()
	if !tolerated {
		return permanent(fmt.Errorf("%s refused a record: %w; %w", node, cause, errThreshold))
	}
	if q.run.Redact != nil {
		cause = q.run.Redact(cause)
	}
	q.write.Lock()
	defer q.write.Unlock()
	letter := record.NewBatch([]record.Record{deadLetter(sourceID, r, node, cause)})
	begin, size := time.Now(), letter.Size()
	if err := q.deliver(ctx, letter); err != nil {
		return err
	}
	q.stats.Records.Add(1)
	q.stats.passed(1, size)
	q.stats.Writes.observe(DurationBounds, time.Since(begin).Seconds(), 1)
	return nil
}

// deliver writes a dead letter and waits for the answer. When that takes too long it ends
// the run with an error of the queue: the destination that refused the record waits for
// the queue and must not be taken for the one that does not answer.
func (q *deadLetters) deliver(ctx context.Context, letter *record.Batch) error {
	out := q.out.Load()
	if limit := q.run.AckTimeout; limit > 0 && !out.batching.unbounded() {
		defer time.AfterFunc(limit, func() {
			q.run.fail(fmt.Errorf("dead-letter queue %s has not answered for %v although a record was written to it", q.id, limit))
		}).Stop()
	}
	out.awaited.Store(true)
	if err := out.connector.Write(ctx, letter); err != nil {
		return q.broken(err)
	}
	select {
	case err := <-out.answers:
		if err != nil {
			return q.broken(err)
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// broken wraps an error of the destination.
func (q *deadLetters) broken(err error) error {
	return refused(fmt.Errorf("cannot write to the dead-letter queue %s: %w", q.id, err))
}

// settledBy returns the function that w's destination calls with results. Results of one
// that was replaced are void.
func (q *deadLetters) settledBy(w *deadLetterWriter) func(n int, err error) {
	return func(n int, err error) {
		switch {
		case q.out.Load() != w:
		case n == 0 && err != nil:
			q.run.fail(q.broken(err))
		case n == 1 && w.awaited.CompareAndSwap(true, false):
			w.answers <- err
		case n > 0:
			q.run.fail(permanent(fmt.Errorf("cannot trust the dead-letter queue %s: %w", q.id, errSurplus)))
		}
	}
}

// deadLetter wraps a refused record in the format of Conduit, so that readers of its
// dead-letter queues can read ours.
func deadLetter(sourceID string, r record.Record, node string, cause error) record.Record {
	var md record.Metadata
	md.Set(record.KeyDLQNackError, cause.Error())
	md.Set(record.KeyDLQNackNodeID, node)
	md.Set(record.KeyCreatedAt, strconv.FormatInt(time.Now().UnixNano(), 10))
	return record.Record{
		Position:  record.Position(sourceID + "/" + string(r.Position)),
		Operation: record.OperationCreate,
		Metadata:  md,
		After:     record.Structured(r.Map()),
	}
}

// nackWindow looks back at the last size records and counts the refused among them.
// Once there are more than threshold, it stays exceeded.
type nackWindow struct {
	size, threshold int
	seen            int64   // records counted
	refused         []int64 // numbers of the refused ones within the window; at most threshold+1
	exceeded        bool
}

func newNackWindow(declared *spec.DLQ) nackWindow {
	w := nackWindow{size: declared.WindowSize, threshold: declared.WindowNackThreshold}
	if !declared.Tolerant() {
		w.size = 1 // the first refusal exceeds it, however far it looks back
	}
	return w
}

func (w *nackWindow) ack(n int) { w.seen += int64(n) }

// nack counts a refusal and reports whether it is tolerated.
func (w *nackWindow) nack() bool {
	if w.size == 0 || w.exceeded {
		return !w.exceeded
	}
	w.seen++
	for len(w.refused) > 0 && w.refused[0] <= w.seen-int64(w.size) {
		w.refused = w.refused[1:]
	}
	w.refused = append(w.refused, w.seen)
	w.exceeded = len(w.refused) > w.threshold
	return !w.exceeded
}
