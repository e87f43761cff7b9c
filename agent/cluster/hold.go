package cluster

import (
	"context"
	"sync"
	"time"
)

// holdPause is the interval at which WaitToWrite checks whether a pipeline may write.
const holdPause = 5 * time.Millisecond

// WaitToWrite blocks until a run of a pipeline that began with a claim of this agent may write its next records. It
// returns the cause of ctx if that ends first. The next owner writes all records past the position in the claim again.
// So a strict pipeline waits while a save of the position is in flight for longer than Timing.Overdue. It also waits,
// for good, once the session is over by this agent's clock, for example after the process was paused: the order to stop
// is then on its way. A relaxed pipeline waits only when this agent no longer owns it.
func (m *Member) WaitToWrite(ctx context.Context, pipeline string) error {
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

// saves holds the saves in flight, at most one per pipeline.
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
		go one.done(ok) // done may start the next save
	}
}

// since returns the start of the save in flight of a pipeline; there is false if there is none.
func (s *saves) since(pipeline string) (began time.Duration, there bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one, there := s.underway[pipeline]
	return one.since, there
}

// abandon drops all saves without an outcome.
func (s *saves) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for pipeline, one := range s.underway {
		delete(s.underway, pipeline)
		go one.done(false)
	}
}
