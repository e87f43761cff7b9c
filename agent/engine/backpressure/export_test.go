package backpressure

import "time"

// TimerLate sets the last delay of the timer.
func (s *Scheduler) TimerLate(by time.Duration) { s.timerLate = by }

// Tick does what the timer does when it fires.
func (s *Scheduler) Tick() { s.tick() }
