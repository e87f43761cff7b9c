package telemetry

import (
	"time"

	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/spec"
)

// Sample reads the counters of all pipelines at the time now.
func (r *Rates) Sample(now time.Time) { r.sample(now) }

// AddTrends adds the changes since the last call to the trends.
func (r *Rates) AddTrends(stats map[string]*measure.Pipeline, now time.Time) {
	r.meet(stats, now)
	r.addTrends(stats, now)
}

// Histories returns the number of pipelines with rates.
func (r *Rates) Histories() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.pipelines)
}

// Of returns how often a pipeline entered each phase.
func (p *Phases) Of(id string) map[spec.Phase]uint64 { return p.counts(id) }
