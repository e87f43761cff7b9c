package deadletter

import (
	"context"
	"io"
	"sync"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec/notify"
)

// routes holds the routes of the in-flight dead letters. They have the positions of their sources, and no two in-flight
// ones have the same position.
type routes struct {
	mu       sync.Mutex
	inFlight map[string]*inFlightReplay // guarded by mu: by position
}

// inFlightReplay is an in-flight dead letter.
type inFlightReplay struct {
	Replay
	route   route
	refused bool // refused again
}

// get returns the route of a record. A record that is not a dead letter was made by processors, and has the route
// whole.
func (s *routes) get(position record.Position) route {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.inFlight[string(position)]; f != nil {
		return f.route
	}
	return whole
}

// source is the source of a replay. It reads dead letters in order, and removes settled ones.
type source struct {
	passive
	run *run

	*routes
	freed   notify.Signal    // a dead letter is settled
	next    []inFlightReplay // owned by Read: loaded, but not read
	stopped chan struct{}
	once    sync.Once
	order   []*inFlightReplay // guarded by routes.mu: in-flight dead letters, in order
}

func newSource(r *run) *source {
	return &source{run: r, routes: &routes{inFlight: map[string]*inFlightReplay{}}, freed: notify.NewSignal(),
		stopped: make(chan struct{})}
}

// maxBatch is the maximum number of dead letters in a batch.
const maxBatch = 256

// Read returns the next dead letters that have the same route.
func (s *source) Read(ctx context.Context) (*record.Batch, error) {
	for {
		select {
		case <-s.stopped:
			return nil, io.EOF
		default:
		}
		if len(s.next) == 0 {
			var err error
			if s.next, err = s.run.load(ctx); err != nil {
				return nil, err
			}
		}
		if len(s.next) == 0 {
			s.run.exhausted()
			select {
			case <-s.stopped:
				return nil, io.EOF
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		if records := s.take(); len(records) > 0 {
			return record.NewBatch(records), nil
		}
		sdk.Stalled(ctx)
		select {
		case <-s.freed:
		case <-s.stopped:
			return nil, io.EOF
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// take returns the next dead letters. It returns none while another one with the position of the next is in flight.
func (s *source) take() (records []record.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.next) > 0 && len(records) < maxBatch {
		f := s.next[0]
		at := string(f.Record.Position)
		if s.inFlight[at] != nil || len(records) > 0 && !s.joins(f.route) {
			break
		}
		s.inFlight[at] = &f
		s.order = append(s.order, &f)
		records = append(records, f.Record.Clone()) // processors change the record
		s.next = s.next[1:]
	}
	s.run.count(func(r *progress) { r.Read += int64(len(records)) })
	return records
}

// joins reports whether a dead letter may be in a batch with those before it, which is the last one. The caller holds
// mu.
func (s *source) joins(r route) bool {
	return r == s.order[len(s.order)-1].route && (r.only == "" || !s.run.declared.Pipeline.Routed())
}

// Ack removes settled dead letters, except for those that were refused again.
func (s *source) Ack(ctx context.Context, positions []record.Position) error {
	s.mu.Lock()
	over := s.order[:len(positions)]
	s.order = s.order[len(positions):]
	var settled []Replay
	for _, f := range over {
		if !f.refused {
			settled = append(settled, f.Replay)
		}
	}
	s.mu.Unlock()
	if err := s.run.store.Settled(ctx, s.run.declared.Pipeline.ID, settled); err != nil {
		return err
	}
	s.mu.Lock()
	for _, f := range over {
		delete(s.inFlight, string(f.Record.Position))
	}
	s.mu.Unlock()
	s.run.count(func(r *progress) { r.Settled += int64(len(settled)) })
	s.freed.Notify()
	return nil
}

// refuse marks the dead letter with this position as refused; first reports whether it was not marked before. It
// returns nil if there is none.
func (s *source) refuse(position record.Position) (f *inFlightReplay, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f = s.inFlight[string(position)]; f == nil {
		return nil, false
	}
	first = !f.refused
	f.refused = true
	return f, first
}

// Stop implements connector.Source.
func (s *source) Stop(context.Context) error {
	s.once.Do(func() { close(s.stopped) })
	return nil
}

// Open implements connector.Source.
func (s *source) Open(context.Context, record.Position) error { return nil }

// passive implements the methods that a connector of a replay does not need.
type passive struct{}

func (passive) Configure(context.Context, map[string]string) error          { return nil }
func (passive) LifecycleOnCreated(context.Context, map[string]string) error { return nil }
func (passive) LifecycleOnUpdated(context.Context, map[string]string, map[string]string) error {
	return nil
}
func (passive) LifecycleOnDeleted(context.Context, map[string]string) error { return nil }
func (passive) Teardown(context.Context) error                              { return nil }

// replayQueue is the dead-letter queue of a replay: records that are refused again are in the store already.
type replayQueue struct {
	passive
	settled func(n int, err error)
}

// Open implements connector.Destination.
func (q *replayQueue) Open(_ context.Context, settled func(n int, err error)) error {
	q.settled = settled
	return nil
}

// Write implements connector.Destination.
func (q *replayQueue) Write(_ context.Context, b *record.Batch) error {
	q.settled(b.Len(), nil)
	return nil
}

// Flush implements connector.Destination.
func (*replayQueue) Flush(context.Context) error { return nil }
