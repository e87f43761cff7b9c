package backpressure

import "time"

// TimerLate sets the last delay of the timer.
func (s *Scheduler) TimerLate(by time.Duration) { s.timerLate = by }

// Tick fires the timer.
func (s *Scheduler) Tick() { s.tick() }
