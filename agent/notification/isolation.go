package notification

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/spec"
)

// isolationFull is the reason of the event that the log of an isolated destination is full.
const isolationFull = "IsolationFull"

// fullLogs returns the notification about the logs of the isolated destinations of a pipeline, whose subject is s.
func (d *decider) fullLogs(now time.Time, s *subject, pipeline string) []Notification {
	state, known := d.state(pipeline)
	switch {
	case !known || state.Phase == spec.PhaseStopped: // a person stopped or deleted it
		s.problem, s.failing = "", nil
		return nil
	case state.Phase != spec.PhaseRunning:
		return nil
	}
	var full []string
	backlogs := d.backlogs(pipeline)
	for _, id := range slices.Sorted(maps.Keys(backlogs)) {
		if b := backlogs[id]; b.Full != "" {
			full = append(full, "the log of destination "+id+" is full: "+b.Text)
		}
	}
	s.failing = nil
	switch {
	case len(full) > 0 && s.problem == "":
		return d.decide(now, s, Notification{At: now, Kind: IsolationFull, Pipeline: pipeline,
			Message: strings.Join(full, "; ")})
	case len(full) == 0 && s.problem != "" && now.Sub(state.Since) >= recoveredAfter:
		return d.decide(now, s, Notification{At: now, Kind: Recovered, Pipeline: pipeline,
			Message: "the logs of its isolated destinations have room"})
	}
	return nil
}
