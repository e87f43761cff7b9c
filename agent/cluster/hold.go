package cluster

import (
	"context"
	"sync"
	"time"
)

// holdPause is the time between two looks whether a pipeline may write.
const holdPause = 5 * time.Millisecond

// Hold waits until a run of a pipeline that began with a claim of this agent may write its next records, or ctx has
// ended, whose cause it returns. What is written past the position in the claim is what the next owner writes again. So
// a strict pipeline waits while its position has been on its way into the claim for longer than Timing.Overdue, and, for
// good, once the session is over by this agent's clock, as after it was paused: the order to stop is on its way then. A
// relaxed pipeline only waits when it is not this agent's any more.
func (m *Member) Hold(ctx context.Context, pipeline string) error {
	for held(m, pipeline) {
		select {
		case <-time.After(holdPause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func held(m *Member, pipeline string) bool {
	m.mu.Lock()
	_, owned := m.owned[pipeline]
	relaxed := m.relaxed[pipeline]
	m.mu.Unlock()
	if !owned || relaxed {
		return !owned
	}
	now := m.now()
	since, saving := m.saves.since(pipeline)
	return saving && now-since >= m.Timing.Overdue || now >= time.Duration(m.heldUntil.Load())
}

// saves are those that are under way, one of a pipeline.
type saves struct {
	mu       sync.Mutex
	underway map[string]save // guarded by mu
}

type save struct {
	since time.Duration
	done  func(ok bool)
}

func (s *saves) begin(pipeline string, now time.Duration, done func(ok bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.underway == nil {
		s.underway = map[string]save{}
	}
	s.underway[pipeline] = save{now, done}
}

// end reports the outcome of a save, if there is one.
func (s *saves) end(pipeline string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one, there := s.underway[pipeline]; there {
		delete(s.underway, pipeline)
		go one.done(ok) // it may save again
	}
}

// since returns when the save of a pipeline began, if there is one.
func (s *saves) since(pipeline string) (began time.Duration, there bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one, there := s.underway[pipeline]
	return one.since, there
}

// abandon ends all of them without an outcome.
func (s *saves) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for pipeline, one := range s.underway {
		delete(s.underway, pipeline)
		go one.done(false)
	}
}
