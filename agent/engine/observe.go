package engine

import (
	"math"
	"time"

	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/spec"
)

// Stages appends a snapshot of every stage of the pipeline to all. It appends nothing while the pipeline does not run.
// It may be called at any time and does not block.
func (p *Pipeline) Stages(all []measure.Stage) []measure.Stage {
	r := p.running.Load()
	if r == nil {
		return all
	}
	for i, s := range r.sources {
		all = append(all, s.observe(r.Pipeline.sources[i].opening.Load()))
	}
	for _, d := range r.dests {
		all = append(all, d.observe())
	}
	return append(all, r.deadLetters.observe())
}

func (s *sourceRun) observe(opening bool) measure.Stage {
	warning := s.reported().Warning // not under mu: it may run arbitrary code
	s.mu.Lock()
	unsettled := s.tracker.Read - s.tracker.Low
	s.mu.Unlock()
	o := measure.Stage{ID: s.id, Type: spec.TypeSource, Doing: measure.Reading, Outstanding: unsettled,
		Passed: s.stats.Records.Load(), Acked: s.stats.Acked.Load(), Report: s.stats.Reports.Get(), Warning: warning,
		RawLane: s.rawLane()}
	_, blocked := s.stats.Blocked.Sum()
	switch {
	case opening:
		o.Doing = measure.Opening
	case s.acking.Load():
		o.Doing = measure.Acking
	case blocked != 0:
		o.Doing = measure.Blocked
	}
	return o
}

func (d *destinationRun) observe() measure.Stage {
	out := d.out.Load()
	d.mu.Lock()
	held := d.written - d.results
	d.mu.Unlock()
	o := measure.Stage{ID: d.id, Type: spec.TypeDestination, Outstanding: held, Patience: out.batching.Patience(held),
		Passed: d.stats.Records.Load(), Report: d.stats.Reports.Get(), Refusal: d.stats.Refusals.Get(),
		Failure: d.failure(), Held: d.heldSince()}
	_, writing := d.stats.Busy.Sum()
	switch {
	case out.opening.Load():
		o.Doing = measure.Opening
	case d.unclaimed.Load():
		o.Doing = measure.Unclaimed
	case held == 0:
	case d.waitsForRoom():
		o.Doing = measure.Full
	case out.batching.Gathers() && writing == 0:
		o.Doing = measure.Gathering
	case out.batching.Limited():
		o.Doing = measure.Throttled
	default:
		o.Doing = measure.Writing
	}
	return o
}

// Patience returns how long a destination with policy p may hold n records deliberately, negative for any time.
func (p BatchPolicy) Patience(n uint64) time.Duration {
	takes := p.Takes(n)
	if p.Waits(n) || takes == math.MaxInt64 {
		return -1
	}
	return takes
}

func (q *deadLetterQueue) observe() measure.Stage {
	out := q.out.Load()
	o := measure.Stage{ID: q.id, Passed: q.stats.Records.Load(), Report: q.stats.Reports.Get()}
	switch {
	case out.opening.Load():
		o.Doing = measure.Opening
	case out.awaited.Load():
		o.Doing, o.Outstanding, o.Patience = measure.Writing, 1, out.batching.Patience(1)
	}
	return o
}
