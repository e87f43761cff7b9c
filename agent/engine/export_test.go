package engine

import (
	"context"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// Tracker opens the settle tracker to tests, with flights told apart by number.
type Tracker struct {
	tracker
	all []*flight
}

// Add takes a batch of records with the given positions into account; origin says
// which of them the processors kept, nil for all.
func (t *Tracker) Add(positions []record.Position, origin []int32, dests int) {
	records := make([]record.Record, len(positions))
	for i := range records {
		records[i].Position = positions[i]
	}
	f := t.flight(record.NewBatch(records), dests)
	f.origin = origin
	t.all = append(t.all, f)
	t.add(f)
}

// Settle settles the next n records of flight i at a destination.
func (t *Tracker) Settle(i, dest, n int) { t.settle(t.all[i], dest, n) }

// Marks returns the four marks.
func (t *Tracker) Marks() (acked, committed, low, read uint64) {
	return t.acked, t.committed, t.low, t.read
}

// Commit makes the low-water mark durable and returns its position.
func (t *Tracker) Commit() (record.Position, error) {
	p := t.position(t.low)
	return p, t.setCommitted(t.low)
}

// Ack acknowledges what is committed.
func (t *Tracker) Ack() ([]record.Position, error) {
	p := t.ackable(nil, maxAcks)
	return p, t.setAcked(len(p), func(*stretch) {})
}

// Held returns the number of batches and bytes that the tracker holds.
func (t *Tracker) Held() (batches, bytes int) { return len(t.flying) + len(t.settled), t.bytes }

// Committable is a source as the committer sees it.
type Committable struct {
	Take  func() (spec.Checkpoint, bool)
	Saved func(error)
}

type committableAdapter struct{ Committable }

func (a committableAdapter) take() (spec.Checkpoint, bool) { return a.Committable.Take() }
func (a committableAdapter) saved(err error)               { a.Committable.Saved(err) }

// Mark marks a source as having progress to save.
func (c *Committer) Mark(s Committable, urgent bool) { c.mark(committableAdapter{s}, urgent) }

// Turn is one that was begun.
type Turn = turn

// TurnsOf returns so many turns.
func TurnsOf(most int) *Turns { return &Turns{most: most} }

// Late has the timer been late the last time.
func (t *Turns) Late(by time.Duration) { t.late = by }

// Begin waits for a turn.
func (t *Turns) Begin(ctx context.Context) (*Turn, error) { return t.begin(ctx) }

// Prolong reports whether a turn goes on.
func (t *Turns) Prolong(granted *Turn) bool { return t.prolong(granted) }

// End ends a turn.
func (t *Turns) End(ended *Turn) { t.end(ended) }
