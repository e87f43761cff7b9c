package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/agent/delivery"
	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/agent/telemetry/trend"
	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/spec"
)

// defaultInterval is the default interval between samples of the counters.
const defaultInterval = time.Second

// Rates turns the counters of pipelines into rates over the last seconds, and keeps a short
// history of the records read per second. Set Runs, then call Run.
type Rates struct {
	Runs Runs
	// Isolation measures isolated destinations; nil: there are none.
	Isolation Isolation
	// Stages returns the observed stages of a running pipeline; nil: stages are not observed.
	Stages   func(id string) []delivery.Stage
	Interval time.Duration // between two samples; 0: a second
	Trends   *trend.Store  // gets a sample of each running pipeline every trend.Step; nil: none

	step    int64             // of the last samples for Trends; owned by Run
	counted map[string]*soFar // by pipeline, at that time; owned by Run
	met     time.Time         // of the previous sample; owned by Run

	mu        sync.Mutex
	pipelines map[string]*history // by id; guarded by mu
}

// Run samples until ctx ends, then it returns nil.
func (r *Rates) Run(ctx context.Context) error {
	tick := time.NewTicker(cmp.Or(r.Interval, defaultInterval))
	defer tick.Stop()
	for {
		r.sample(time.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// sample reads the counters of all pipelines, and removes the histories of pipelines that are gone.
func (r *Rates) sample(now time.Time) {
	stats := r.Runs.Stats()
	if r.Trends != nil {
		r.meet(stats, now)
		if step := now.UnixNano() / int64(trend.Step); step != r.step {
			r.step = step
			r.addTrends(stats, now)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pipelines == nil {
		r.pipelines = map[string]*history{}
	}
	for id, s := range stats {
		h := r.pipelines[id]
		if h == nil {
			h = &history{}
			r.pipelines[id] = h
		}
		h.sample(s, func(f func(string, *processor.Stats)) { r.Runs.EachProcessor(id, f) }, now)
	}
	if len(r.pipelines) > len(stats) {
		maps.DeleteFunc(r.pipelines, func(id string, _ *history) bool { return stats[id] == nil })
	}
}

// All returns the rates of the running pipelines, by id, with their series.
func (r *Rates) All() []spec.PipelineRates {
	all := []spec.PipelineRates{}
	for id := range r.Runs.Running() {
		if one := r.Get(id); one != nil {
			all = append(all, *one)
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].ID < all[j].ID })
	return all
}

// Get returns the rates of a pipeline with their series, nil if it does not run or was not sampled twice yet.
func (r *Rates) Get(id string) *spec.PipelineRates {
	running, stats := r.Runs.Pipeline(id)
	if running == nil || stats == nil {
		return nil
	}
	all := r.measured(id)
	if all == nil {
		return nil
	}
	all.Refused = stats.DeadLetters.Records.Load()
	for id, lag := range running.Lags() {
		if s, ok := all.Stages[id]; ok && !reflect.ValueOf(lag.Behind).IsZero() {
			s.Behind = &lag.Behind
			all.Stages[id] = s
		}
		if s, ok := all.Stages[id]; ok && lag.Read == 0 && !lag.OpenSince.IsZero() {
			s.Waiting = "no record yet, open since " + lag.OpenSince.UTC().Format(time.RFC3339)
			all.Stages[id] = s
		}
		if oldest := lag.OldestUnacked.Seconds(); oldest > 0 && (all.Oldest == nil || oldest > *all.Oldest) {
			all.Oldest = &oldest
		}
	}
	r.Runs.EachProcessor(id, func(id string, stats *processor.Stats) {
		never := stats.NeverFound.Load()
		if s, ok := all.Stages[id]; ok && never != nil && len(*never) > 0 {
			s.Notes = []string{fmt.Sprintf("none of its records had %s so far: is the name right?",
				strings.Join(*never, " or "))}
			all.Stages[id] = s
		}
	})
	if r.Isolation != nil {
		for id, backlog := range r.Isolation.Backlogs(running) {
			if s, ok := all.Stages[id]; ok {
				s.Backlog = &backlog
				all.Stages[id] = s
			}
		}
	}
	if r.Stages != nil {
		addStages(all, r.Stages(id))
	}
	return all
}

// worthShowing is the time for which a stage must be busy before it is shown as busy: most stages are busy for a
// moment.
const worthShowing = 2 * time.Second

// addStages adds the observed stages to all. The dead-letter queue is included if it is active or has failed.
func addStages(all *spec.PipelineRates, stages []delivery.Stage) {
	for i := range stages {
		s := &stages[i]
		one, ok := all.Stages[s.ID]
		if !ok && s.Since.IsZero() && s.Report == nil {
			continue
		}
		one.Kind, one.Doing, one.Outstanding = s.Kind, string(s.Doing), s.Outstanding
		one.RawLane = s.RawLane
		if !s.Since.IsZero() && time.Since(s.Since) >= worthShowing {
			one.Since = &s.Since
		}
		for _, r := range []*measure.Report{s.Report, s.Refusal} {
			if r != nil {
				one.Errors, one.Error = one.Errors+r.Count, r.Text
			}
		}
		all.Stages[s.ID] = one
	}
	markStuck(all, stages)
}

func (r *Rates) measured(id string) *spec.PipelineRates {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.pipelines[id]
	if h == nil || h.n < 2 {
		return nil
	}
	return h.rates(id)
}
