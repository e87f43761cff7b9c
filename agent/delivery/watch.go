package delivery

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/spec"
)

// The default interval between observations, and the number of observations after which the message of a stall may
// change again.
const (
	defaultInterval = time.Second
	messageEvery    = 10
)

// Loop keeps the states of pipelines.
type Loop interface {
	Snapshot() []spec.State
	// SetStall replaces the stall of a pipeline, which may be nil, unless the current stall differs from before.
	SetStall(ctx context.Context, id string, before, now *spec.Stall) error
}

// Runs gives access to the running pipelines.
type Runs interface {
	// Pipeline returns a pipeline if it runs, and its counters over all runs. Either is nil if it does not exist.
	Pipeline(id string) (*engine.Pipeline, *measure.Pipeline)
	// EachProcessor calls f with the stats of every processor of a pipeline that ran, by qualified id.
	EachProcessor(pipeline string, f func(id string, stats *processor.Stats))
}

// Watch observes all pipelines, and saves stalls with the loop. All exported fields are set before Run.
type Watch struct {
	Loop Loop
	Runs Runs
	// Unplaced reports whether a pipeline should run but no member of the cluster runs it; nil: there is no cluster.
	Unplaced func(id string) bool
	// Silent reports whether no source of a running pipeline has read a record for longer than its max-silence. last is
	// when one has, or when the run began. nil: no pipeline has a max-silence.
	Silent   func(id string) (last time.Time, silent bool)
	Limits   *Limits       // nil: DefaultLimits
	Interval time.Duration // between two observations; 0: a second
	Log      *slog.Logger

	mu        sync.Mutex
	pipelines map[string]*pipeline // guarded by mu; by id
	stages    []measure.Stage      // guarded by mu; scratch space for the stages of a pipeline
}

// pipeline is a pipeline as observed over time.
type pipeline struct {
	observed Observed
	run      *engine.Pipeline
	stages   []Stage   // of the last run, in the order of their first observation
	since    time.Time // when the observed phase began
	running  bool      // it ran during that phase
	updated  time.Time // when the message of the stall was set
	seen     time.Time
}

// Run observes until ctx ends, then it returns nil.
func (w *Watch) Run(ctx context.Context) error {
	tick := time.NewTicker(w.interval())
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			w.sample(ctx, now)
		}
	}
}

func (w *Watch) interval() time.Duration { return cmp.Or(w.Interval, defaultInterval) }

// Stages returns the stages of a running pipeline in the order in which records pass them, and none if the pipeline
// does not run.
func (w *Watch) Stages(id string) []Stage {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.pipelines[id]; p != nil {
		return slices.Clone(p.observed.Stages)
	}
	return nil
}

// sample observes every pipeline.
func (w *Watch) sample(ctx context.Context, now time.Time) {
	type change struct {
		id          string
		before, now *spec.Stall
	}
	var changes []change
	states := w.Loop.Snapshot()
	w.mu.Lock()
	if w.pipelines == nil {
		w.pipelines = map[string]*pipeline{}
	}
	for i := range states {
		s := &states[i]
		p := w.pipelines[s.PipelineID]
		if p == nil {
			p = &pipeline{since: s.Since, observed: Observed{Limits: cmp.Or(w.Limits, &DefaultLimits), Confirmed: now}}
			p.observed.State.Stall = s.Stall
			w.pipelines[s.PipelineID] = p
		}
		p.seen = now
		w.observe(now, p, s)
		stall := Judge(now, &p.observed)
		if stall != nil && stall != s.Stall {
			stall.Generation = s.RunningGeneration
		}
		if p.changes(now, stall, messageEvery*w.interval()) {
			changes = append(changes, change{s.PipelineID, s.Stall, stall})
			p.observed.State.Stall, p.updated = stall, now
		}
	}
	maps.DeleteFunc(w.pipelines, func(_ string, p *pipeline) bool { return p.seen != now })
	w.mu.Unlock()
	for _, c := range changes {
		if err := w.Loop.SetStall(ctx, c.id, c.before, c.now); err != nil && ctx.Err() == nil {
			w.Log.Warn("cannot record whether a pipeline delivers", "component", "delivery", "pipeline_id", c.id, "err",
				err)
		}
	}
}

// changes reports whether stall replaces the current one.
func (p *pipeline) changes(now time.Time, stall *spec.Stall, messages time.Duration) bool {
	before := p.observed.State.Stall
	if before.Same(stall) {
		return before != nil && before.Message != stall.Message && now.Sub(p.updated) >= messages
	}
	return true
}

// observe records the state of a pipeline and its stages.
func (w *Watch) observe(now time.Time, p *pipeline, s *spec.State) {
	o := &p.observed
	run, counts := w.Runs.Pipeline(s.PipelineID)
	if s.Stall != o.State.Stall && s.Stall != nil && s.Stall.Failed && s.Stall.Restart.IsZero() {
		p.failed(now)
	}
	p.running, p.since = s.Phase == spec.PhaseRunning, s.Since
	o.State = *s
	unplaced := s.Phase == spec.PhaseStopped && !s.StoppedByUser && w.Unplaced != nil && w.Unplaced(s.PipelineID)
	o.Silent = time.Time{}
	if w.Silent != nil {
		if last, silent := w.Silent(s.PipelineID); silent {
			o.Silent = last
		}
	}
	switch {
	case !unplaced:
		o.Unplaced = time.Time{}
	case o.Unplaced.IsZero():
		o.Unplaced = now
	}
	if run == nil || run != p.run {
		p.begin(s, counts)
		p.run = run
	}
	if o.Stages = nil; run == nil {
		p.recount(counts)
		return
	}
	w.stages = run.Stages(w.stages[:0])
	found := 0
	for i := range w.stages {
		m := &w.stages[i]
		p.note(now, found, m, run.Declared, counts)
		found++
	}
	w.Runs.EachProcessor(s.PipelineID, func(id string, stats *processor.Stats) {
		m := &measure.Stage{ID: id, Passed: stats.Accepted.Load()}
		if counts != nil {
			m.Refusal = counts.Refusals(id).Get()
		}
		if call := stats.Current.Load(); call != 0 {
			m.Doing, m.Outstanding, m.Acked = measure.Processing, 1, call
		}
		p.note(now, found, m, run.Declared, counts)
		found++
	})
	p.stages = p.stages[:found]
	o.Stages = p.stages
	if stall := o.worst(now); stall != nil {
		o.Confirmed = now
	}
}

// failed records the end of a run with an error.
func (p *pipeline) failed(now time.Time) {
	o := &p.observed
	again := !o.Failure.IsZero() && now.Sub(o.Failure) < 2*o.Limits.Regular
	if !again {
		o.Failed, o.Flapped = 0, 0
	}
	if p.running && again { // the first failure says nothing about the next ones
		lasted := now.Sub(p.since)
		if slices.ContainsFunc(p.stages, Stage.delivered) {
			o.Flapped = lasted
		} else {
			o.Failed = lasted
		}
	}
	o.Confirmed, o.Failure = now, now
}

// delivered reports whether the stage is a destination that accepted a record in this run.
func (s Stage) delivered() bool { return s.Kind == spec.StageDestination && !s.PassedAt.IsZero() }

// begin begins to observe another run. Reports of stages stay while the pipeline is stalled.
func (p *pipeline) begin(s *spec.State, stats *measure.Pipeline) {
	for i := range p.stages {
		st := &p.stages[i]
		st.Since, st.PassedAt = time.Time{}, time.Time{}
		if s.Stall == nil {
			clearReports(stats, st.Kind, st.ID)
		}
	}
}

// recount records the counters at the end of a run.
func (p *pipeline) recount(stats *measure.Pipeline) {
	if stats == nil {
		return
	}
	stats.Each(func(_ spec.ConnectorType, id string, c *measure.Connector) {
		if i := slices.IndexFunc(p.stages, func(st Stage) bool { return st.ID == id }); i >= 0 {
			p.stages[i].Passed = c.Records.Load()
		}
	})
}

// note records the current activity of a stage as the stage at index i.
func (p *pipeline) note(now time.Time, i int, m *measure.Stage, declared *spec.Pipeline, stats *measure.Pipeline) {
	if i == len(p.stages) || p.stages[i].ID != m.ID { // except for processors, each sample finds them in the same order
		j := slices.IndexFunc(p.stages[i:], func(st Stage) bool { return st.ID == m.ID })
		if j < 0 {
			p.stages = slices.Insert(p.stages, i, Stage{Kind: declared.StageKind(m.ID)})
		} else {
			p.stages[i], p.stages[i+j] = p.stages[i+j], p.stages[i]
		}
	}
	st := &p.stages[i]
	answered := m.Held.IsZero() || m.Held.After(st.Held) // by the system of an isolated destination, if it is one
	if st.sample(now, m) && answered {
		clearReports(stats, st.Kind, m.ID)
		st.Report, st.Refusal = nil, nil
	}
}

// clearReports clears the reports of a stage.
func clearReports(stats *measure.Pipeline, kind spec.StageKind, id string) {
	if stats == nil {
		return
	}
	c := &stats.DeadLetters
	switch kind {
	case spec.StageSource:
		c = stats.Source(id)
	case spec.StageDestination:
		c = stats.Destination(id)
	case spec.StageProcessor:
		stats.Refusals(id).Clear()
		return
	}
	c.Reports.Clear()
	c.Refusals.Clear()
}

// sample records the current activity of the stage and reports whether it passed records since the last sample.
func (s *Stage) sample(now time.Time, m *measure.Stage) (passed bool) {
	waits := m.Outstanding > 0
	mark := func(m *measure.Stage) uint64 { return m.Passed }
	switch {
	case s.Kind == spec.StageSource:
		waits = m.Doing == measure.Opening || m.Doing == measure.Acking
		mark = func(m *measure.Stage) uint64 { return m.Acked }
	case s.Kind == spec.StageProcessor:
		mark = func(m *measure.Stage) uint64 { return m.Acked }
	case m.Doing == measure.Opening, m.Doing == measure.Unclaimed:
		waits = true
	}
	passed = m.Passed != s.Passed
	goesOn := waits && mark(m) == mark(&s.Stage) && kindOf(m.Doing) == kindOf(s.Doing)
	if !s.Since.IsZero() && !goesOn || passed {
		took := s.Usual * 4 / 5
		if !s.Since.IsZero() && m.Report == nil && m.Refusal == nil && kindOf(s.Doing) == working {
			took = max(took, now.Sub(s.Since))
		}
		s.Usual = took
	}
	switch {
	case !waits:
		s.Since = time.Time{}
	case s.Since.IsZero() || !goesOn:
		s.Since = now
	}
	if passed {
		s.PassedAt = now
	}
	s.Stage = *m
	return passed
}

// working is the common activity of stages that handle records.
const working measure.Doing = "working"

// kindOf returns the activity in which a stage must remain to count as stuck.
func kindOf(d measure.Doing) measure.Doing {
	switch d {
	case measure.Opening, measure.Unclaimed, measure.Acking:
		return d
	}
	return working
}
