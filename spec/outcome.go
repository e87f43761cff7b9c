package spec

// Outcome is the outcome of a declaration.
type Outcome string

// The outcomes.
const (
	OutcomePending Outcome = "pending" // in progress, or on probation
	OutcomeOK      Outcome = "ok"      // it runs, or is stopped, as declared
	OutcomeFailed  Outcome = "failed"  // it does not run, or not with its current references; may be retried
)

// Stale reports whether the last re-apply of the running version failed, because of its references or on request.
// LastAttempt has the reason.
func (s *State) Stale() bool {
	a := s.LastAttempt
	return s.RunningGeneration != 0 && a != nil && a.Generation == s.RunningGeneration && a.Error != ""
}

// OutcomeOf returns the outcome for a pipeline with this declared generation and the desired status want, according to
// its observed state.
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
	case tried && (s.Phase == PhaseRecovering || s.Phase == PhaseDegraded || s.Phase == PhaseRunning &&
		s.LastAttempt.Error != ""):
		return OutcomeFailed
	}
	return OutcomePending
}
