package spec

// Outcome is what became of something that was declared.
type Outcome string

// The outcomes.
const (
	OutcomePending Outcome = "pending" // it is on its way, or has yet to prove itself
	OutcomeOK      Outcome = "ok"      // it is what runs, or stopped as it should be
	OutcomeFailed  Outcome = "failed"  // it was tried and does not run, or not with what it refers to by now; it may be tried again
)

// Stale reports whether what runs was to take effect again, because of what it refers to
// or on request, and could not: LastAttempt says why.
func (s *State) Stale() bool {
	a := s.LastAttempt
	return s.RunningGeneration != 0 && a != nil && a.Generation == s.RunningGeneration && a.Error != ""
}

// OutcomeOf returns what became of a pipeline of which this generation is declared and
// whose desired status is want, going by what is observed of it.
func OutcomeOf(want Status, generation int64, s *State) Outcome {
	runs := s.Phase == PhaseRunning && s.RunningGeneration == generation
	tried := s.LastAttempt != nil && s.LastAttempt.Generation == generation
	switch {
	case want == StatusStopped && s.Phase == PhaseStopped:
		return OutcomeOK
	case want == StatusStopped:
		return OutcomePending
	case runs && !s.Stale() && s.LastGood != nil && s.LastGood.Generation == generation:
		return OutcomeOK
	case tried && (s.Phase == PhaseRecovering || s.Phase == PhaseDegraded || s.Phase == PhaseRunning && s.LastAttempt.Error != ""):
		return OutcomeFailed
	}
	return OutcomePending
}
