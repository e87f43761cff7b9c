package cli

import (
	"fmt"
	"time"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/spec"
)

// silence returns the reason why no record passes a connector of the pipeline, "" when no reason is known. filtered
// reports whether the inspector has filters. silence keeps in idle since when the sources read nothing, so that the
// next call returns the same text.
func silence(s *rest.PipelineStatus, connector string, filtered bool, idle *time.Time) string {
	state := &s.State
	switch {
	case s.Placement != nil && s.Placement.Member != "":
		return fmt.Sprintf("pipeline %s runs on cluster member %s: inspect it there", s.ID,
			s.Placement.Member)
	case s.Withdrawn != nil:
		return fmt.Sprintf("pipeline %s is no longer declared", s.ID)
	case state.Phase == spec.PhaseStopped && s.Override == spec.StatusStopped:
		return fmt.Sprintf("pipeline %s was stopped manually at %s; to start it: conduit pipelines start %s", s.ID,
			terminal.Moment(state.Since), s.ID)
	case state.Phase == spec.PhaseStopped && s.Declared == spec.StatusStopped:
		return fmt.Sprintf("pipeline %s is declared stopped; to start it: conduit pipelines start %s", s.ID, s.ID)
	case state.Phase == spec.PhaseDegraded:
		return fmt.Sprintf("pipeline %s is degraded: %s", s.ID, state.Error)
	case state.Phase == spec.PhaseRecovering:
		return fmt.Sprintf("pipeline %s failed and will be retried: %s", s.ID, state.Error)
	case state.Phase != spec.PhaseRunning:
		return fmt.Sprintf("pipeline %s is %s", s.ID, state.Phase)
	}
	return idleness(s, connector, filtered, idle)
}

// accuracy is the largest difference between computed times of the same second in a series.
const accuracy = 2 * time.Second

// idleness returns the reason why no record passes a connector of a running pipeline.
func idleness(s *rest.PipelineStatus, connector string, filtered bool, idle *time.Time) string {
	const measured = "pipeline %s runs, but has no rates yet"
	if s.Rates == nil {
		return fmt.Sprintf(measured, s.ID)
	}
	stage := s.Rates.Stages[connector]
	switch {
	case stage.Waiting != "":
		return connector + ": " + stage.Waiting
	case stage.Records > 0 && filtered:
		return "records pass, but no filter matches them"
	case stage.Records > 0:
		return "" // a mean over some seconds, and the last second had no records
	case stage.Slow != "":
		return stage.Slow
	}
	series := s.Rates.Series
	for i := len(series) - 1; i >= 0; i-- {
		if series[i] > 0 {
			since := time.Now().Add(-time.Duration(len(series)-1-i) * time.Second)
			if since.Sub(*idle).Abs() > accuracy {
				*idle = since
			}
			return fmt.Sprintf("idle: the pipeline runs, but its sources have read nothing since %s",
				terminal.Moment(*idle))
		}
	}
	for id, other := range s.Rates.Stages {
		if other.Waiting != "" {
			return fmt.Sprintf("idle: %s: %s", id, other.Waiting)
		}
	}
	return "idle: the pipeline runs, but its sources have read nothing for minutes"
}
