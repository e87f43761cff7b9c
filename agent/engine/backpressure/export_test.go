package backpressure

import "time"

// TimerLate sets by how long the timer was late the last time.
func (s *Scheduler) TimerLate(by time.Duration) { s.timerLate = by }
