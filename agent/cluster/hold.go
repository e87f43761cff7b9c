package cluster

import (
	"context"
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
	for m.held(pipeline) {
		select {
		case <-time.After(holdPause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (m *Member) held(pipeline string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, owned := m.owned[pipeline]; !owned {
		return true
	}
	if m.relaxed[pipeline] {
		return false
	}
	now := m.now()
	s, saving := m.saving[pipeline]
	return saving && now-s.since >= m.Timing.Overdue || now >= time.Duration(m.heldUntil.Load())
}
