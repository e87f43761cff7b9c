// Package delivery observes whether pipelines deliver what they read. It decides when one does not, which of its stages
// is to blame, and when that is over.
package delivery

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/spec"
)

// How long stages may take, in addition to what their settings allow and to what is usual for them.
const (
	stuckAfter  = 20 * time.Second // to accept a record, to answer a call, or to refuse all records
	reportAfter = 2 * time.Second  // to succeed after the first error that a stage reports
	startAfter  = 30 * time.Second // for the plugins of a pipeline to come up, or for a member of a cluster to claim it
	readAgain   = 90 * time.Second // without another error until a source that reads nothing counts as well again
	usualAtMost = 2 * time.Minute  // what may be usual for a stage
)

// How long a run has to last after one that failed.
const (
	steadyDelivering = 15 * time.Second // when it delivers
	steadyIdle       = 30 * time.Second // when there is nothing to deliver
	steadyAtMost     = 5 * time.Minute  // when the failures come regularly
)

// Stage is a stage of a pipeline as it was observed over time.
type Stage struct {
	measure.Stage
	Kind string // as in package spec
	// Since is since when the stage has had something to do and has done none of it: when it accepted its last
	// record, or got the first one that waits. It is zero when it has nothing to do.
	Since time.Time
	// PassedAt is when the stage read or accepted a record last in this run, zero when it has not.
	PassedAt time.Time
	// Usual is how long the stage took lately from one record to the next.
	Usual time.Duration
}

// Observed is what is known of a pipeline at one time.
type Observed struct {
	State     spec.State
	Stages    []Stage       // of the run; none when nothing runs
	Confirmed time.Time     // when the stall of State was observed last
	Failed    time.Duration // how long the last run lasted that failed and had delivered nothing
	Flapped   time.Duration // the same of one that had delivered something
	Failure   time.Time     // when a run failed last, zero when none has
	Unplaced  time.Time     // since when no member of the cluster has the pipeline; zero when one has, or there is no cluster
}

// Judge returns why a pipeline delivers nothing, nil when it delivers, has nothing to deliver, or is not to run.
func Judge(now time.Time, o *Observed) *spec.Stall {
	before := o.State.Stall
	switch o.State.Phase {
	case spec.PhaseStopped:
		return o.stopped(now)
	case spec.PhaseStarting:
		if s := o.worst(now); s != nil {
			return after(before, s)
		}
		if before == nil && now.Sub(o.State.Since) >= startAfter {
			return &spec.Stall{Reason: spec.StallStart, Since: o.State.Since, Message: "its plugins have not started since " + moment(o.State.Since)}
		}
	case spec.PhaseRunning:
		if s := o.worst(now); s != nil {
			return after(before, s)
		}
		if before != nil && o.over(now) {
			return nil
		}
	}
	return before
}

// after returns s as what became of a stall that there was before, nil for none.
func after(before, s *spec.Stall) *spec.Stall {
	if before == nil {
		return s
	}
	s.Failed = before.Failed
	if before.Since.Before(s.Since) {
		s.Since = before.Since
	}
	return s
}

// stopped judges a pipeline of which nothing runs here, and which is to run on another member of a cluster, if
// anywhere. What was observed before the agent ended stays until the pipeline runs again.
func (o *Observed) stopped(now time.Time) *spec.Stall {
	before := o.State.Stall
	waits := before != nil && before.Reason == spec.StallCluster
	switch {
	case o.Unplaced.IsZero() && waits:
		return nil
	case o.Unplaced.IsZero(), waits, now.Sub(o.Unplaced) < startAfter:
		return before
	}
	return &spec.Stall{Reason: spec.StallCluster, Since: o.Unplaced, Message: "no member of the cluster has run it since " + moment(o.Unplaced)}
}

// over reports whether the stall of a pipeline that runs, and of which nothing is observed any more, is over: the stage
// that was to blame passes records again, or there has been nothing to do for a while.
func (o *Observed) over(now time.Time) bool {
	s, age := o.State.Stall, now.Sub(o.State.Since)
	if s.Reason == spec.StallCluster || s.Reason == spec.StallStart {
		return true
	}
	if o.passed(s.Stage) {
		return !s.Failed || age >= min(max(steadyDelivering, 2*o.Flapped), steadyAtMost)
	}
	idle := !slices.ContainsFunc(o.Stages, func(st Stage) bool { return !st.Since.IsZero() })
	return idle && age >= min(max(steadyIdle, 2*o.Failed, 2*o.Flapped), steadyAtMost)
}

// passed reports whether a stage passed a record after its stall was observed last. For a stage that counts none, or that
// there is no more, that is when a destination did.
func (o *Observed) passed(id string) bool {
	passed := func(st Stage) bool { return st.PassedAt.After(o.Confirmed) }
	i := slices.IndexFunc(o.Stages, func(st Stage) bool { return st.ID == id })
	if i >= 0 && o.Stages[i].Kind != spec.StageProcessor {
		return passed(o.Stages[i])
	}
	return slices.ContainsFunc(o.Stages, func(st Stage) bool { return st.Kind == spec.StageDestination && passed(st) })
}

// blame is which kinds of stages are to blame first: what is behind a stage that waits makes it wait.
var blame = map[string]int{spec.StageQueue: 0, spec.StageDestination: 1, spec.StageProcessor: 2, spec.StageSource: 3}

// maxNamed is how many stages a message names.
const maxNamed = 3

// worst returns the stall that the stages show now, nil for none.
func (o *Observed) worst(now time.Time) *spec.Stall {
	type found struct {
		*Stage
		*spec.Stall
	}
	var all []found
	for i := range o.Stages {
		if s := o.Stages[i].judge(now); s != nil {
			all = append(all, found{&o.Stages[i], s})
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, func(a, b found) int {
		return cmp.Or(cmp.Compare(blame[a.Kind], blame[b.Kind]), a.Stall.Since.Compare(b.Stall.Since))
	})
	worst := all[0].Stall
	for _, other := range all[1:min(len(all), maxNamed)] {
		worst.Message += "; " + other.Message
	}
	return worst
}

// judge returns why the stage holds its pipeline up, nil when it does not.
func (s *Stage) judge(now time.Time) *spec.Stall {
	if s.Kind == spec.StageSource {
		return s.source(now)
	}
	waited := now.Sub(s.Since)
	waits := !s.Since.IsZero() && s.Patience >= 0 && waited >= max(stuckAfter, min(2*s.Usual, usualAtMost))+s.Patience
	switch r := s.Refusal; {
	case s.Doing == measure.Unclaimed:
		if waits {
			return &spec.Stall{Reason: spec.StallCluster, Stage: s.ID, Since: s.Since,
				Message: s.name() + " has waited for the cluster to confirm the claim since " + moment(s.Since)}
		}
	case !s.Since.IsZero() && s.Report.Count > 0 && now.Sub(s.Report.First) >= reportAfter:
		return s.stall(spec.StallRetrying, s.Since, s.Report.Text)
	case r.Count > 1 && r.Last.Sub(r.First) >= stuckAfter:
		return s.stall(spec.StallRefuses, r.First, "it refuses every record: "+r.Text)
	case waits && s.Doing == measure.Opening:
		return s.stall(spec.StallStuck, s.Since, "opening it has not ended")
	case waits && s.Kind == spec.StageProcessor:
		return s.stall(spec.StallStuck, s.Since, "its call has not ended")
	case waits:
		return s.stall(spec.StallStuck, s.Since, "it does not answer, and records wait")
	}
	return nil
}

// source judges a source. One that reads nothing and reports nothing may have nothing to read.
func (s *Stage) source(now time.Time) *spec.Stall {
	waits, r := !s.Since.IsZero(), s.Report
	switch {
	case waits && s.Doing == measure.Opening && r.Count > 0 && now.Sub(r.First) >= reportAfter:
		return s.stall(spec.StallRetrying, s.Since, r.Text)
	case r.Count > 1 && r.Last.Sub(r.First) >= reportAfter && now.Sub(r.Last) < max(readAgain, 2*r.Last.Sub(r.First)/time.Duration(r.Count-1)):
		return s.stall(spec.StallRetrying, r.First, r.Text)
	case waits && now.Sub(s.Since) >= stuckAfter && s.Doing == measure.Opening:
		return s.stall(spec.StallStuck, s.Since, "opening it has not ended")
	case waits && now.Sub(s.Since) >= stuckAfter:
		return s.stall(spec.StallStuck, s.Since, "it does not return from an acknowledgement")
	}
	return nil
}

// verbs say what stages of a kind do with records.
var verbs = map[string]string{spec.StageSource: "read", spec.StageDestination: "accepted", spec.StageQueue: "accepted", spec.StageProcessor: "passed on"}

func (s *Stage) stall(done string, since time.Time, why string) *spec.Stall {
	return &spec.Stall{Reason: s.Kind + done, Stage: s.ID, Since: since,
		Message: fmt.Sprintf("%s has %s nothing since %s: %s", s.name(), verbs[s.Kind], moment(since), why)}
}

func (s *Stage) name() string {
	kind := strings.ToLower(s.Kind)
	if s.Kind == spec.StageQueue {
		kind = "dead-letter queue"
	}
	return kind + " " + s.ID
}

// moment is a time as messages have it.
func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }
