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

	write sync.Mutex                // one record at a time
	out   atomic.Pointer[letterbox] // replaced with write held
}

// letterbox is the destination of dead letters.
type letterbox struct {
	*opened[connector.Destination]
	awaited atomic.Bool // a letter has no answer yet
	answers chan error  // capacity 1
}

func newLetterbox(o *opened[connector.Destination]) *letterbox {
	return &letterbox{opened: o, answers: make(chan error, 1)}
}

func newDeadLetters(r *run, o *opened[connector.Destination]) *deadLetters {
	q := &deadLetters{run: r, id: o.id, stats: &r.Stats.DeadLetters, window: newNackWindow(&r.Declared.DLQ)}
	q.out.Store(newLetterbox(o))
	return q
}

// look has the queue look back through another window from now on.
func (q *deadLetters) look(declared *spec.DLQ) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.window = newNackWindow(declared)
}

// errThreshold says that more records were refused than the pipeline tolerates.
var errThreshold = errors.New("the dead-letter queue's window-nack-threshold is exceeded")

// acked tells the window that n records were handled.
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
	if q.run.Tell != nil {
		cause = q.run.Tell(cause)
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

// deliver writes a letter and waits for the answer. When that takes too long, it ends the
// run: a destination that waits for it with records of its own is not to blame.
func (q *deadLetters) deliver(ctx context.Context, letter *record.Batch) error {
	out := q.out.Load()
	if limit := q.run.AckTimeout; limit > 0 && !out.pace.patient() {
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

// settledBy returns the function that b calls with results. What it says after it was
// replaced is void.
func (q *deadLetters) settledBy(b *letterbox) func(n int, err error) {
	return func(n int, err error) {
		switch {
		case q.out.Load() != b:
		case n == 0 && err != nil:
			q.run.fail(q.broken(err))
		case n == 1 && b.awaited.CompareAndSwap(true, false):
			b.answers <- err
		case n > 0:
			q.run.fail(permanent(fmt.Errorf("cannot trust the dead-letter queue %s: %w", q.id, errSurplus)))
		}
	}
}

// deadLetter wraps a refused record the way Conduit does, so that what reads its
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
