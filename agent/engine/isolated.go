package engine

import (
	"context"
	"errors"
	"time"

	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/plugins/connector"
)

// Isolated is a destination that settles a record once its own log has it, and writes it to its system later.
// Flush and Teardown leave unwritten records in the log.
type Isolated interface {
	connector.Destination
	// RefuseTo sets where the destination sends the records that its system refuses after they were settled. It is
	// called before Open.
	RefuseTo(DeadLetterQueue)
	// WaitsForRoom reports whether a call of Write waits until the log has room.
	WaitsForRoom() bool
	// Failure returns the failures in a row of the system, with the last error; nil if there are none. It is called at
	// any time.
	Failure() *measure.Report
	// Held returns since when the system holds records without settling one, zero if it holds none, or holds them
	// because of its settings. It is called at any time.
	Held() time.Time
}

// DeadLetterQueue takes refused records of a run from an Isolated destination.
type DeadLetterQueue interface {
	// Window returns an empty window that bounds the refused records.
	Window() DeadLetterWindow
	// Take takes over a refused record: on return it is durable in the queue of the run, unless Stopped is set. Then
	// the destination keeps the record, and only the dead-letter store has a copy. An error of the queue ends the run.
	Take(ctx context.Context, l *DeadLetter) error
}

// isolated returns the connector as an Isolated one, nil if it is none.
func (o *opened[C]) isolated() Isolated {
	i, _ := any(o.connector).(Isolated)
	return i
}

// Window implements DeadLetterQueue.
func (q *deadLetterQueue) Window() DeadLetterWindow {
	return NewDeadLetterWindow(&q.run.version.Load().declared.DeadLetterQueue)
}

// Take implements DeadLetterQueue.
func (q *deadLetterQueue) Take(ctx context.Context, l *DeadLetter) error {
	err := q.take(ctx, l)
	switch {
	case err == nil && !l.Stopped:
		q.run.Stats.Destination(l.RefusedBy).Nacked.Add(1)
	case err != nil && ctx.Err() == nil && !errors.Is(err, errNotRunning):
		q.run.fail(err)
	}
	return err
}

// EachIsolated calls f with the qualified id of every isolated destination of p while it runs. It may be called at
// any time.
func EachIsolated(p *Pipeline, f func(id string, d Isolated)) {
	r := p.running.Load()
	if r == nil {
		return
	}
	for _, d := range r.dests {
		if i := d.out.Load().isolated(); i != nil {
			f(d.id, i)
		}
	}
}

// failure returns why an isolated destination receives nothing; nil if there is no reason.
func (d *destinationRun) failure() *measure.Report {
	if i := d.out.Load().isolated(); i != nil {
		return i.Failure()
	}
	return nil
}

// heldSince returns since when the system of an isolated destination holds records without settling one; zero
// otherwise.
func (d *destinationRun) heldSince() time.Time {
	if i := d.out.Load().isolated(); i != nil {
		return i.Held()
	}
	return time.Time{}
}

// waitsForRoom reports whether records wait for room in the log of an isolated destination.
func (d *destinationRun) waitsForRoom() bool {
	i := d.out.Load().isolated()
	return i != nil && i.WaitsForRoom()
}
