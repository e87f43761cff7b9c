package runner

import (
	"context"
	"log/slog"
	"maps"
	"sync"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// processorStats holds the counters of the processors of a pipeline, by their qualified ids, over all its runs.
type processorStats struct {
	mu  sync.Mutex
	all map[string]*processor.Stats // guarded by mu
}

// get returns the stats of a processor, nil when it never ran.
func (s *processorStats) get(id string) *processor.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[id]
}

func (s *processorStats) make(id, _ string) *processor.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[string]*processor.Stats{}
	}
	if s.all[id] == nil {
		s.all[id] = &processor.Stats{}
	}
	return s.all[id]
}

// retain removes the counters of processors that p no longer has.
func (s *processorStats) retain(p *spec.Pipeline) {
	declared := map[string]bool{}
	add := func(parent string, all []spec.Processor) {
		for _, d := range all {
			declared[parent+":"+d.ID] = true
		}
	}
	add(p.ID, p.Chain(nil))
	for _, c := range p.Connectors {
		add(p.QualifiedID(c.ID), c.Processors)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.all, func(id string, _ *processor.Stats) bool { return !declared[id] })
}

// processorStats returns the counters of the processors of a pipeline.
func (r *Runner) processorStats(pipelineID string) *processorStats {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.processors == nil {
		r.processors = map[string]*processorStats{}
	}
	if r.processors[pipelineID] == nil {
		r.processors[pipelineID] = &processorStats{}
	}
	return r.processors[pipelineID]
}

// Processor returns the counters of a processor by its qualified id, nil if it never ran.
func (r *Runner) Processor(pipelineID, id string) *processor.Stats {
	return r.processorStats(pipelineID).get(id)
}

// EachProcessor calls f for every processor of a pipeline that ran, by its qualified id.
func (r *Runner) EachProcessor(pipelineID string, f func(id string, stats *processor.Stats)) {
	s := r.processorStats(pipelineID)
	s.mu.Lock()
	all := maps.Clone(s.all)
	s.mu.Unlock()
	for id, stats := range all {
		f(id, stats)
	}
}

// chains returns the options to run the processors of a pipeline with.
func (r *Runner) chains(p *spec.Pipeline, log *slog.Logger) processor.Options {
	stats := r.processorStats(p.ID)
	stats.retain(p)
	return processor.Options{
		Registry: r.Catalog.Processors,
		Logger:   log,
		Schemas:  r.Catalog.Host.Schemas,
		StateDir: r.stateDir(p.ID),
		Timeout:  r.ProcessorTimeout,
		Budget:   r.Budget,
		Stats:    stats.make,
		Tap: func(id string, out bool, records []record.Record) {
			point := engine.TapIn(id)
			if out {
				point = engine.TapOut(id)
			}
			r.Taps.Publish(point, records)
		},
	}
}

// Processors opens a chain of processors.
func (d dispenser) Processors(
	ctx context.Context, parent string, declared []spec.Processor, former connector.Chain,
) (connector.Chain, error) {
	options := d.chains
	options.Former, _ = former.(*processor.Chain)
	return processor.Open(ctx, parent, declared, options)
}
