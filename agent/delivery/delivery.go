// Package delivery observes whether pipelines deliver the records that they read. It decides when a pipeline has
// stopped delivering, which stage is to blame, and when the stall is over.
package delivery

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/spec"
)

// Limits are the times that Judge waits, in addition to the times that settings allow and that are usual for a stage.
type Limits struct {
	Stuck  time.Duration // to accept a record, to answer a call, or to refuse every record
	Report time.Duration // to succeed after the first error that a stage reports
	Fresh  time.Duration // without another error until a stage no longer counts as retrying
	Start  time.Duration // for the plugins of a pipeline to start, or for a member of a cluster to claim it
	Steady time.Duration // for a run after a failed one, if it delivers
	Idle   time.Duration // the same if it has nothing to deliver
	// Regular is the longest interval that counts as usual: half this time between two records of a slow stage, all of
	// it between regular failures.
	Regular time.Duration
}

// DefaultLimits detect a pipeline that stops delivering within half a minute.
var DefaultLimits = Limits{
	Stuck:   20 * time.Second,
	Report:  2 * time.Second,
	Fresh:   90 * time.Second,
	Start:   30 * time.Second,
	Steady:  15 * time.Second,
	Idle:    30 * time.Second,
	Regular: 5 * time.Minute,
}

// fresh returns how long after the last of several reports the next one may come.
func (l *Limits) fresh(r *measure.Report) time.Duration {
	return max(l.Fresh, 2*r.Last.Sub(r.First)/time.Duration(r.Count-1))
}

// Stage is a stage of a pipeline as observed over time.
type Stage struct {
	measure.Stage
	Kind spec.StageKind
	// Since is the start of the current period with work but without progress: the later of the acceptance of the last
	// record and the arrival of the first waiting record. It is zero when the stage has nothing to do.
	Since time.Time
	// PassedAt is when the stage last read or accepted a record in this run, zero for never.
	PassedAt time.Time
	// Usual is the recent time of the stage from one record to the next.
	Usual time.Duration
}

// Observed is a snapshot of a pipeline.
type Observed struct {
	Limits    *Limits
	State     spec.State
	Stages    []Stage       // of the run; none if the pipeline does not run
	Confirmed time.Time     // when the stall of State was last observed
	Failed    time.Duration // duration of the last run that failed and had delivered nothing
	Flapped   time.Duration // duration of the last run that failed and had delivered records
	Failure   time.Time     // time of the last failure of a run, zero for none
	Silent    time.Time     // when a source last read a record, if that is longer ago than max-silence; else zero
	// since when no member of the cluster has the pipeline; zero when one has or there is no cluster
	Unplaced time.Time
}

// Judge returns why a pipeline delivers nothing. It returns nil when the pipeline delivers, has nothing to deliver, or
// should not run.
func Judge(now time.Time, o *Observed) *spec.Stall {
	before := o.State.Stall
	switch o.State.Phase {
	case spec.PhaseStopped:
		return o.stopped(now)
	case spec.PhaseStarting:
		if s := o.worst(now); s != nil {
			return after(before, s)
		}
		if before == nil && now.Sub(o.State.Since) >= o.Limits.Start {
			return &spec.Stall{Reason: spec.StallStart, Since: o.State.Since, Message: "its plugins have not started"}
		}
	case spec.PhaseRunning:
		if before.Silent() {
			before = nil
		}
		if s := o.worst(now); s != nil {
			return after(before, s)
		}
		if before == nil || o.over(now) {
			return o.silence()
		}
	}
	return before
}

// silence returns the stall of a pipeline that reads nothing, nil if there may be nothing to read.
func (o *Observed) silence() *spec.Stall {
	if o.Silent.IsZero() {
		return nil
	}
	s := &spec.Stall{Reason: spec.StageSource.Reason(spec.StallSilent), Since: o.Silent,
		Message: "no source has read a record for longer than max-silence"}
	for i := range o.Stages {
		st := &o.Stages[i]
		switch {
		case st.Kind != spec.StageSource:
		case s.Stage == "":
			s.Stage, s.Message = st.ID, st.name()+" has read no record for longer than max-silence"
		default:
			s.Stage, s.Message = "", "no source has read a record for longer than max-silence"
			return s
		}
	}
	return s
}

// after returns s as the successor of the former stall, nil for none.
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

// stopped judges a pipeline that does not run on this agent, and that may be assigned to another member of the
// cluster. A stall observed before the agent ended stays until the pipeline runs again.
func (o *Observed) stopped(now time.Time) *spec.Stall {
	before := o.State.Stall
	waits := before != nil && before.Reason == spec.StallCluster
	switch {
	case o.Unplaced.IsZero() && waits:
		return nil
	case o.Unplaced.IsZero(), waits, now.Sub(o.Unplaced) < o.Limits.Start:
		return before
	}
	return &spec.Stall{Reason: spec.StallCluster, Since: o.Unplaced, Message: "no member of the cluster runs it"}
}

// over reports whether the stall of a running pipeline, in which no new stall is observed, is over: the stage to blame
// passes records again, or there has been nothing to do for a while. After a failed run, the next run must last a
// while, unless it is a restart that a person asked for.
func (o *Observed) over(now time.Time) bool {
	s, age := o.State.Stall, now.Sub(o.State.Since)
	if s.Reason == spec.StallCluster || s.Reason == spec.StallStart {
		return true
	}
	restarted := !s.Restart.IsZero() && !o.State.Since.Before(s.Restart)
	if o.passed(s.Stage) {
		return !s.Failed || restarted || age >= min(max(o.Limits.Steady, 2*o.Flapped), o.Limits.Regular)
	}
	rest := min(max(o.Limits.Idle, 2*o.Failed, 2*o.Flapped), o.Limits.Regular)
	if restarted {
		rest = o.Limits.Report
	}
	idle := !slices.ContainsFunc(o.Stages, func(st Stage) bool { return !st.Since.IsZero() })
	return idle && age >= rest
}

// passed reports whether a stage passed a record after the last observation of its stall. For a processor, and for a
// stage that the pipeline no longer has, a destination takes its place.
func (o *Observed) passed(id string) bool {
	passed := func(st Stage) bool { return st.PassedAt.After(o.Confirmed) }
	i := slices.IndexFunc(o.Stages, func(st Stage) bool { return st.ID == id })
	if i >= 0 && o.Stages[i].Kind != spec.StageProcessor {
		return passed(o.Stages[i])
	}
	return slices.ContainsFunc(o.Stages, func(st Stage) bool { return st.Kind == spec.StageDestination && passed(st) })
}

// blame orders the kinds of stages by blame, highest first: a stage that waits is held up by a later stage.
var blame = map[spec.StageKind]int{spec.StageQueue: 0, spec.StageDestination: 1, spec.StageProcessor: 2,
	spec.StageSource: 3}

// maxNamed is the maximum number of stages that a message names.
const maxNamed = 3

// worst returns the current stall of the stages, nil for none.
func (o *Observed) worst(now time.Time) *spec.Stall {
	type found struct {
		*Stage
		*spec.Stall
	}
	var all []found
	for i := range o.Stages {
		if s := o.Stages[i].judge(now, o.Limits); s != nil {
			all = append(all, found{&o.Stages[i], s})
		}
	}
	if len(all) == 0 {
		return nil
	}
	sort.SliceStable(all, func(i, j int) bool {
		a, b := &all[i], &all[j]
		return cmp.Or(cmp.Compare(blame[a.Kind], blame[b.Kind]), a.Stall.Since.Compare(b.Stall.Since)) < 0
	})
	worst := all[0].Stall
	for _, other := range all[1:min(len(all), maxNamed)] {
		worst.Message += "; " + other.Message
	}
	return worst
}

// judge returns the stall of the pipeline for which the stage is to blame, nil for none.
func (s *Stage) judge(now time.Time, l *Limits) *spec.Stall {
	if s.Kind == spec.StageSource {
		return s.source(now, l)
	}
	waited := now.Sub(s.Since)
	waits := !s.Since.IsZero() && s.Patience >= 0 && waited >= max(l.Stuck, min(2*s.Usual, l.Regular/2))+s.Patience
	switch r, refusal := orEmpty(s.Report), orEmpty(s.Refusal); {
	case s.Doing == measure.Unclaimed:
		if waits {
			return &spec.Stall{Reason: spec.StallCluster, Stage: s.ID, Since: s.Since,
				Message: s.name() + " waits for the cluster to confirm the claim"}
		}
	case !s.Since.IsZero() && r.Count > 0 && now.Sub(r.First) >= l.Report && now.Sub(r.Last) < l.Fresh:
		return s.stall(spec.StallRetrying, s.Since, r.Text)
	case s.Failure != nil && now.Sub(s.Failure.First) >= l.Stuck:
		return s.stall(spec.StallRetrying, s.Failure.First, s.Failure.Text)
	case !s.Held.IsZero() && r.Count > 0 && now.Sub(s.Held) >= l.Report && now.Sub(r.First) >= l.Report &&
		now.Sub(r.Last) < l.Fresh:
		return s.stall(spec.StallRetrying, s.Held, r.Text)
	case !s.Held.IsZero() && now.Sub(s.Held) >= l.Regular/2: // its usual time for a record is not known
		return s.stall(spec.StallStuck, s.Held, "it has not responded, and records are waiting in its log"+s.last())
	// the stage itself reports that the problem is not over
	case r.Count > 0 && s.Warning != "" && now.Sub(r.First) >= l.Report:
		return s.stall(spec.StallRetrying, r.First, r.Text)
	case refusal.Count > 1 && refusal.Last.Sub(refusal.First) >= l.Stuck:
		return s.stall(spec.StallRefuses, refusal.First, "it refuses every record: "+refusal.Text)
	case waits && s.Doing == measure.Opening:
		return s.stall(spec.StallStuck, s.Since, "it has not opened yet"+s.last())
	case waits && s.Doing == measure.Full:
		return s.stall(spec.StallStuck, s.Since, "its log is full, and full is block"+s.last())
	case waits && s.Kind == spec.StageProcessor:
		return s.stall(spec.StallStuck, s.Since, "its call has not returned")
	case waits:
		return s.stall(spec.StallStuck, s.Since, "it has not responded, and records are waiting"+s.last())
	}
	return nil
}

// orEmpty returns r, or an empty report if r is nil.
func orEmpty(r *measure.Report) measure.Report {
	if r == nil {
		return measure.Report{}
	}
	return *r
}

// source judges a source. A source that reads nothing and reports nothing may have nothing to read.
func (s *Stage) source(now time.Time, l *Limits) *spec.Stall {
	waits, r := !s.Since.IsZero(), orEmpty(s.Report)
	switch {
	case waits && s.Doing == measure.Opening && r.Count > 0 && now.Sub(r.First) >= l.Report:
		return s.stall(spec.StallRetrying, s.Since, r.Text)
	case r.Count > 1 && r.Last.Sub(r.First) >= l.Report && now.Sub(r.Last) < l.fresh(&r):
		return s.stall(spec.StallRetrying, r.First, r.Text)
	case waits && now.Sub(s.Since) >= l.Stuck && s.Doing == measure.Opening:
		return s.stall(spec.StallStuck, s.Since, "it has not opened yet")
	case waits && now.Sub(s.Since) >= l.Stuck:
		return s.stall(spec.StallStuck, s.Since, "it has not returned from an acknowledgement")
	}
	return nil
}

// idles maps a kind of stage to its activity while it has nothing to do.
var idles = map[spec.StageKind]string{spec.StageSource: "reads nothing", spec.StageDestination: "accepts nothing",
	spec.StageQueue: "accepts nothing", spec.StageProcessor: "passes on nothing"}

// stall returns a stall of the stage. Its message contains no time, because the stall may get the Since of an earlier
// one.
func (s *Stage) stall(done string, since time.Time, why string) *spec.Stall {
	message := s.name() + " " + idles[s.Kind] + ": " + why
	return &spec.Stall{Reason: s.Kind.Reason(done), Stage: s.ID, Since: since, Message: message}
}

// last returns the last error that the stage reported, as an addition to a message.
func (s *Stage) last() string {
	if s.Report == nil {
		return ""
	}
	return "; the last error was " + s.Report.Text
}

func (s *Stage) name() string {
	kind := string(s.Kind)
	if s.Kind == spec.StageQueue {
		kind = "dead-letter queue"
	}
	return kind + " " + s.ID
}
