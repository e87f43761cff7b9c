package telemetry

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/spec"
)

// pipelines reports declared pipelines and their counters.
func (c *Collector) pipelines(to chan<- prometheus.Metric) {
	declared, err := c.Store.Declarations(context.Background())
	if err != nil {
		return // the store cannot be read; the other metrics are sent
	}
	running, stats := c.Runs.Running(), c.Runs.Stats()
	var counted totals
	reported := map[[3]string]bool{}
	for i := range declared {
		p := &declared[i].Pipeline
		state, known := c.Loop.State(p.ID)
		if !known {
			state.Phase = spec.PhaseStopped
		}
		if declared[i].Withdrawn.IsZero() {
			counted.add(p, state.Phase)
		}
		c.state(to, p, &state)
		if s := stats[p.ID]; s != nil {
			collectPipeline(to, p, s)
		}
		c.processors(to, p, reported)
		if r := running[p.ID]; r != nil {
			collectLags(gaugeTo(to), p, r)
			c.isolated(to, p, r)
		}
	}
	counted.collect(gaugeTo(to))
}

// pipelineStatus is the number of a status in conduit_pipeline_status, as in the enum of the REST API.
var pipelineStatus = map[spec.Phase]float64{
	spec.PhaseRunning: 1, spec.PhaseStopping: 1,
	spec.PhaseStopped: 2, spec.PhaseStarting: 2,
	spec.PhaseDegraded:   3,
	spec.PhaseRecovering: 4,
}

func (c *Collector) state(to chan<- prometheus.Metric, p *spec.Pipeline, s *spec.State) {
	gauge, counter := gaugeTo(to), counterTo(to)
	gauge(statusDesc, pipelineStatus[s.Phase], p.Name, p.ID)
	gauge(failuresDesc, float64(s.Failures), p.Name, p.ID)
	stalled := 0.0
	if s.Stall != nil && !s.Stall.Silent() {
		stalled = max(0, time.Since(s.Stall.Since).Seconds())
	}
	gauge(notDeliveringDesc, stalled, p.Name, p.ID)
	for phase, n := range c.Phases.counts(p.ID) {
		counter(phasesDesc, n, p.Name, p.ID, string(phase))
		if phase == spec.PhaseRecovering {
			counter(recoveringDesc, n, p.Name, p.ID)
		}
	}
}

func collectPipeline(to chan<- prometheus.Metric, p *spec.Pipeline, s *measure.Pipeline) {
	counter := counterTo(to)
	ran := map[string]*measure.Connector{}
	s.Each(func(_ spec.ConnectorType, id string, stats *measure.Connector) { ran[id] = stats })
	for _, c := range p.Connectors {
		id := p.QualifiedID(c.ID)
		labels := []string{p.Name, p.ID, c.Plugin, string(c.Type), id}
		passed := cmp.Or(ran[id], &measure.Connector{})
		counter(recordsDesc, passed.Records.Load(), labels...)
		counter(bytesDesc, passed.Bytes.Load(), labels...)
		histogramTo(to, sizesDesc, &passed.Sizes, measure.SizeBounds, labels...)
		if c.Type == spec.TypeSource {
			last := 0.0
			if at := passed.LastRead.Load(); at != 0 {
				last = float64(at) / 1e9
			}
			gaugeTo(to)(lastReadDesc, last, labels...)
			counter(ackedDesc, passed.Acked.Load(), labels...)
			counter(filteredDesc, passed.Filtered.Load(), labels...)
			histogramTo(to, callsDesc, &passed.Reads, measure.DurationBounds, labels...)
			continue
		}
		counter(nackedDesc, passed.Nacked.Load(), labels...)
		histogramTo(to, callsDesc, &passed.Writes, measure.DurationBounds, labels...)
	}
	histogramTo(to, transitsDesc, &s.Transits, measure.DurationBounds, p.Name, p.ID)
	histogramTo(to, ackLagsDesc, &s.AckLags, measure.DurationBounds, p.Name, p.ID)
	histogramTo(
		to,
		deadLetterQueueSizesDesc,
		&s.DeadLetters.Sizes,
		measure.SizeBounds,
		p.Name,
		p.ID,
		p.DeadLetterQueue.Plugin,
	)
	histogramTo(
		to,
		deadLetterQueueWritesDesc,
		&s.DeadLetters.Writes,
		measure.DurationBounds,
		p.Name,
		p.ID,
		p.DeadLetterQueue.Plugin,
	)
}

func collectLags(gauge gauge, p *spec.Pipeline, running *engine.Pipeline) {
	for id, l := range running.Lags() {
		gauge(sequenceDesc, float64(l.Read), p.Name, p.ID, id, "read")
		gauge(sequenceDesc, float64(l.Settled), p.Name, p.ID, id, "settled")
		gauge(sequenceDesc, float64(l.Committed), p.Name, p.ID, id, "committed")
		gauge(sequenceDesc, float64(l.Acked), p.Name, p.ID, id, "acked")
		gauge(unackedDesc, l.OldestUnacked.Seconds(), p.Name, p.ID, id)
		collectBehind(gauge, &l.Behind, p.Name, p.ID, id)
	}
}

// isolated reports the logs of the isolated destinations of p.
func (c *Collector) isolated(to chan<- prometheus.Metric, p *spec.Pipeline, running *engine.Pipeline) {
	if c.Isolation == nil {
		return
	}
	for id, b := range c.Isolation.Backlogs(running) {
		c.Isolation.Measure(&b, func(name, help string, counter bool, value float64) {
			kind := prometheus.GaugeValue
			if counter {
				kind = prometheus.CounterValue
			}
			to <- prometheus.MustNewConstMetric(desc(name, help, "pipeline_name", "pipeline_id", "component_id"), kind,
				value, p.Name, p.ID, id)
		})
	}
}

// collectBehind reports the progress that a source reports, if any.
func collectBehind(gauge gauge, r *progress.Report, labels ...string) {
	if r.Bytes != nil {
		gauge(behindBytesDesc, float64(*r.Bytes), labels...)
	}
	if r.Records != nil {
		gauge(behindRecordsDesc, float64(*r.Records), labels...)
	}
	if r.Seconds != nil {
		gauge(behindSecondsDesc, *r.Seconds, labels...)
	}
	for i := range r.Snapshots {
		snapshotLabels := append(slices.Clone(labels), r.Snapshots[i].Of)
		gauge(snapshotRowsDesc, float64(r.Snapshots[i].Rows), snapshotLabels...)
		gauge(snapshotTotalDesc, float64(r.Snapshots[i].Total), snapshotLabels...)
	}
	if r.Warning != "" || len(r.Skipped) > 0 {
		gauge(behindWarningDesc, 1, labels...)
	} else if !r.At.IsZero() {
		gauge(behindWarningDesc, 0, labels...)
	}
}

// processors reports the counters of the processors of p. Two qualified ids may be equal, so that two processors have
// the same labels; only the first is reported, since a scrape with a duplicate series fails as a whole.
func (c *Collector) processors(to chan<- prometheus.Metric, p *spec.Pipeline, reported map[[3]string]bool) {
	collect := func(parent string, all []spec.Processor) {
		for _, d := range all {
			id := parent + ":" + d.ID
			labels := [3]string{p.Name, d.Plugin, id}
			if s := c.Runs.Processor(p.ID, id); s != nil && !reported[labels] {
				reported[labels] = true
				collectProcessor(to, s, labels[:]...)
			}
		}
	}
	collect(p.ID, p.Processors)
	for i := range p.Connectors {
		collect(p.QualifiedID(p.Connectors[i].ID), p.Connectors[i].Processors)
	}
}

func collectProcessor(to chan<- prometheus.Metric, s *processor.Stats, labels ...string) {
	counter := counterTo(to)
	for result, n := range map[string]uint64{"in": s.In.Load(), "out": s.Out.Load(), "filtered": s.Filtered.Load(),
		"refused": s.Refused.Load()} {
		counter(processedDesc, n, append(slices.Clone(labels), result)...)
	}
	count, within := uint64(0), make(map[float64]uint64, len(processor.Buckets))
	for i := range s.Seconds {
		if count += s.Seconds[i].Load(); i < len(processor.Buckets) {
			within[processor.Buckets[i]] = count
		}
	}
	to <- prometheus.MustNewConstHistogram(processDesc, count, time.Duration(s.Nanos.Load()).Seconds(), within,
		labels...)
}

// totals counts declared objects that are not being deleted, as the API lists them.
type totals struct {
	phases     map[spec.Phase]int
	connectors map[spec.ConnectorType]int
	processors map[string]int // by plugin, as declared
}

func (t *totals) add(p *spec.Pipeline, phase spec.Phase) {
	if t.phases == nil {
		*t = totals{map[spec.Phase]int{}, map[spec.ConnectorType]int{}, map[string]int{}}
	}
	t.phases[phase]++
	t.addProcessors(p.Processors)
	for _, c := range p.Connectors {
		t.connectors[c.Type]++
		t.addProcessors(c.Processors)
	}
}

func (t *totals) addProcessors(all []spec.Processor) {
	for _, p := range all {
		t.processors[p.Plugin]++
	}
}

func (t *totals) collect(gauge gauge) {
	for _, phase := range []spec.Phase{spec.PhaseRunning, spec.PhaseStopped, spec.PhaseDegraded, spec.PhaseRecovering} {
		gauge(pipelinesDesc, float64(t.phases[phase]), string(phase))
	}
	for _, passing := range []spec.Phase{spec.PhaseStarting, spec.PhaseStopping} {
		if n := t.phases[passing]; n > 0 {
			gauge(pipelinesDesc, float64(n), string(passing))
		}
	}
	for _, c := range []spec.ConnectorType{spec.TypeSource, spec.TypeDestination} {
		gauge(connectorsDesc, float64(t.connectors[c]), string(c))
	}
	for plugin, n := range t.processors {
		gauge(processorsDesc, float64(n), plugin)
	}
}
