package telemetry

import (
	"maps"
	"sync"

	"github.com/conduit-agent/conduit/spec"
)

// Phases counts how often each pipeline entered each phase, and the outcomes of attempts to run a version. The zero
// Phases is ready to use.
type Phases struct {
	mu                sync.Mutex
	succeeded, failed uint64             // attempts; guarded by mu
	pipelines         map[string]*phases // by id; guarded by mu
}

// phases holds the counters of a pipeline.
type phases struct {
	last    spec.State
	entered map[spec.Phase]uint64
}

// Observe counts a new state of a pipeline.
func (p *Phases) Observe(s spec.State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.pipelines[s.PipelineID]
	if one == nil {
		one = &phases{entered: map[spec.Phase]uint64{}}
		if p.pipelines == nil {
			p.pipelines = map[string]*phases{}
		}
		p.pipelines[s.PipelineID] = one
	}
	if a, last := s.LastAttempt, one.last.LastAttempt; a != nil && (last == nil || !a.At.Equal(last.At)) {
		if a.Error == "" {
			p.succeeded++
		} else {
			p.failed++
		}
	}
	if one.last.Phase != s.Phase {
		one.entered[s.Phase]++
	}
	one.last = s
}

// Attempts returns how many attempts to run a version succeeded and failed, for all pipelines since the agent started.
func (p *Phases) Attempts() (succeeded, failed uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.succeeded, p.failed
}

// Forget removes the counters of a deleted pipeline. Its attempts still count.
func (p *Phases) Forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pipelines, id)
}

// counts returns how often a pipeline entered each phase.
func (p *Phases) counts(id string) map[spec.Phase]uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one := p.pipelines[id]; one != nil {
		return maps.Clone(one.entered)
	}
	return nil
}
