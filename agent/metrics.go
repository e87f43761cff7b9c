package agent

import (
	"context"
	"maps"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/spec"
)

// Metrics returns the handler of /metrics. Nothing is measured for it alone: a scrape
// reads what the parts count anyway.
func (a *Agent) Metrics() http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), &metrics{a})
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{})
}

// metrics collects the agent's own metrics. Names and labels are Conduit's where the
// meaning is the same.
type metrics struct{ a *Agent }

// connectorLabels tell connectors apart.
var connectorLabels = []string{"pipeline_name", "pipeline_id", "plugin", "type", "component_id"}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	infoDesc       = desc("conduit_info", "Version of the agent.", "version", "go_version")
	directoryDesc  = desc("conduit_pipelines_directory", "State of the directory of the pipeline files: 1 for the one it is in.", "state")
	pipelinesDesc  = desc("conduit_pipelines", "Number of pipelines by status.", "status")
	statusDesc     = desc("conduit_pipeline_status", "Status of a pipeline: 1 running, 2 stopped, 3 degraded, 4 recovering.", "pipeline_name", "pipeline_id")
	failuresDesc   = desc("conduit_pipeline_failures", "Failures in a row that have not been outlived.", "pipeline_name", "pipeline_id")
	connectorsDesc = desc("conduit_connectors", "Number of connectors by type.", "type")
	processorsDesc = desc("conduit_processors", "Number of processors by where they are attached.", "type")

	recordsDesc  = desc("conduit_connector_records_total", "Records read by a source, or written by a destination.", connectorLabels...)
	ackedDesc    = desc("conduit_connector_acked_records_total", "Records acknowledged to a source.", connectorLabels...)
	nackedDesc   = desc("conduit_connector_nacked_records_total", "Records that a destination refused.", connectorLabels...)
	filteredDesc = desc("conduit_connector_filtered_records_total", "Records of a source that processors dropped.", connectorLabels...)
	bytesDesc    = desc("conduit_connector_bytes_total", "Bytes of the records that passed a connector.", connectorLabels...)
	sizesDesc    = desc("conduit_connector_bytes", "Sizes of the records that passed a connector.", connectorLabels...)
	callsDesc    = desc("conduit_connector_execution_duration_seconds", "Time a source takes to read, waiting for records included, or a destination to write, sampled.", connectorLabels...)

	sequenceDesc = desc("conduit_source_sequence", "Number of the last record of the current run that got to a stage: read, settled, committed, acked.", "pipeline_name", "pipeline_id", "component_id", "stage")
	unackedDesc  = desc("conduit_source_oldest_unacked_seconds", "Time since the oldest record not yet acknowledged was read.", "pipeline_name", "pipeline_id", "component_id")

	startsDesc   = desc("conduit_plugin_starts_total", "Times a connector was started: for a run, a check of settings or a clean-up.", "plugin")
	residentDesc = desc("conduit_plugin_resident_bytes", "Memory of a connector's process.", "component_id")
	fdsDesc      = desc("conduit_plugin_open_fds", "Open file descriptors of a connector's process.", "component_id")
	attemptsDesc = desc("conduit_reconcile_attempts_total", "Attempts to run a version of a pipeline.", "result")
	sessionsDesc = desc("conduit_inspector_sessions", "Open inspector sessions.", "component_id")
	droppedDesc  = desc("conduit_inspector_dropped_records_total", "Records that inspector sessions did not get to see.", "component_id")
	panicsDesc   = desc("conduit_api_panics_total", "Requests that ended in a panic.")
	ackLagsDesc  = desc("conduit_source_ack_lag_seconds", "Time from every destination having a record to it being acknowledged to its source.", "pipeline_name", "pipeline_id")

	transitsDesc   = desc("conduit_pipeline_execution_duration_seconds", "Time from reading a record to every destination having it.", "pipeline_name", "pipeline_id")
	dlqSizesDesc   = desc("conduit_dlq_bytes", "Sizes of the records written to the dead-letter queue.", "pipeline_name", "pipeline_id", "plugin")
	dlqWritesDesc  = desc("conduit_dlq_execution_duration_seconds", "Time the dead-letter queue takes to write.", "pipeline_name", "pipeline_id", "plugin")
	commitsDesc    = desc("conduit_commit_duration_seconds", "Time to make positions durable, fsync included.")
	committedDesc  = desc("conduit_committed_positions_total", "Positions made durable.")
	phasesDesc     = desc("conduit_pipeline_phases_total", "Times a pipeline entered a phase.", "pipeline_name", "pipeline_id", "phase")
	recoveringDesc = desc("pipeline_recovering_count", "Times a pipeline failed and began to recover.", "pipeline_name", "pipeline_id")
)

// Describe sends nothing: which series there are depends on what is declared.
func (m *metrics) Describe(chan<- *prometheus.Desc) {}

// Collect reads everything once.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	gauge := gaugeTo(to)
	gauge(infoDesc, 1, m.a.options.Version, runtime.Version())
	for _, state := range spec.DirectoryStates {
		in := 0.0
		if state == m.a.Files.Status().Directory.State {
			in = 1
		}
		gauge(directoryDesc, in, string(state))
	}
	histogramTo(to, commitsDesc, &m.a.Committer.Commits, engine.DurationBounds)
	counterTo(to)(committedDesc, m.a.Committer.Committed.Load())
	m.parts(gauge, counterTo(to))

	declared, err := m.a.Store.Declarations(context.Background())
	if err != nil {
		return // what is declared cannot be told; the rest can
	}
	running, stats := m.a.Runner.observe()
	var counted totals
	for i := range declared {
		p := &declared[i].Pipeline
		state, known := m.a.Loop.State(p.ID)
		if !known {
			state.Phase = spec.PhaseStopped
		}
		if declared[i].Withdrawn.IsZero() {
			counted.add(p, state.Phase)
		}
		m.state(to, p, &state)
		if s := stats[p.ID]; s != nil {
			collectPipeline(to, p, s)
		}
		if r := running[p.ID]; r != nil {
			collectLags(gauge, p, r)
		}
	}
	counted.collect(gauge)
}

// totals counts what is declared and not on its way out, as the API lists it.
type totals struct {
	phases     map[spec.Phase]int
	connectors map[spec.ConnectorType]int
	processors map[string]int
}

func (t *totals) add(p *spec.Pipeline, phase spec.Phase) {
	if t.phases == nil {
		*t = totals{map[spec.Phase]int{}, map[spec.ConnectorType]int{}, map[string]int{}}
	}
	t.phases[phase]++
	t.processors["pipeline"] += len(p.Processors)
	for _, c := range p.Connectors {
		t.connectors[c.Type]++
		t.processors["connector"] += len(c.Processors)
	}
}

func (t *totals) collect(gauge func(*prometheus.Desc, float64, ...string)) {
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
	for _, of := range []string{"pipeline", "connector"} {
		gauge(processorsDesc, float64(t.processors[of]), of)
	}
}

// parts reports what the plugin host, the reconciler and the API count.
func (m *metrics) parts(gauge func(*prometheus.Desc, float64, ...string), counter func(*prometheus.Desc, uint64, ...string)) {
	for plugin, n := range m.a.Runner.starts.all() {
		counter(startsDesc, n, plugin)
	}
	resident, fds := map[string]float64{}, map[string]float64{} // while a pipeline changes, a connector may have two
	for _, p := range pluginProcesses() {
		resident[p.connectorID] += float64(p.resident)
		fds[p.connectorID] += float64(p.fds)
	}
	for id := range resident {
		gauge(residentDesc, resident[id], id)
		gauge(fdsDesc, fds[id], id)
	}
	counter(attemptsDesc, m.a.phases.attempts[0].Load(), "ok")
	counter(attemptsDesc, m.a.phases.attempts[1].Load(), "error")
	if m.a.server == nil {
		return
	}
	stats := m.a.server.Stats()
	for id, n := range stats.Sessions {
		gauge(sessionsDesc, float64(n), id)
	}
	for id, n := range stats.Dropped {
		counter(droppedDesc, n, id)
	}
	counter(panicsDesc, stats.Panics)
}

// pipelineStatus is the number a status has in conduit_pipeline_status: that of the
// REST API's enum.
var pipelineStatus = map[spec.Phase]float64{
	spec.PhaseRunning: 1, spec.PhaseStopping: 1,
	spec.PhaseStopped: 2, spec.PhaseStarting: 2,
	spec.PhaseDegraded:   3,
	spec.PhaseRecovering: 4,
}

func (m *metrics) state(to chan<- prometheus.Metric, p *spec.Pipeline, s *spec.State) {
	gauge, counter := gaugeTo(to), counterTo(to)
	gauge(statusDesc, pipelineStatus[s.Phase], p.Name, p.ID)
	gauge(failuresDesc, float64(s.Failures), p.Name, p.ID)
	for phase, n := range m.a.phases.of(p.ID) {
		counter(phasesDesc, n, p.Name, p.ID, string(phase))
		if phase == spec.PhaseRecovering {
			counter(recoveringDesc, n, p.Name, p.ID)
		}
	}
}

func collectPipeline(to chan<- prometheus.Metric, p *spec.Pipeline, s *engine.PipelineStats) {
	counter := counterTo(to)
	for _, c := range p.Connectors {
		id := p.QualifiedID(c.ID)
		labels := []string{p.Name, p.ID, c.Plugin, string(c.Type), id}
		passed := s.Connector(id)
		counter(recordsDesc, passed.Records.Load(), labels...)
		counter(bytesDesc, passed.Bytes.Load(), labels...)
		histogramTo(to, sizesDesc, &passed.Sizes, engine.SizeBounds, labels...)
		if c.Type == spec.TypeSource {
			counter(ackedDesc, passed.Acked.Load(), labels...)
			counter(filteredDesc, passed.Filtered.Load(), labels...)
			histogramTo(to, callsDesc, &passed.Reads, engine.DurationBounds, labels...)
			continue
		}
		counter(nackedDesc, passed.Nacked.Load(), labels...)
		histogramTo(to, callsDesc, &passed.Writes, engine.DurationBounds, labels...)
	}
	histogramTo(to, transitsDesc, &s.Transits, engine.DurationBounds, p.Name, p.ID)
	histogramTo(to, ackLagsDesc, &s.AckLags, engine.DurationBounds, p.Name, p.ID)
	histogramTo(to, dlqSizesDesc, &s.DeadLetters.Sizes, engine.SizeBounds, p.Name, p.ID, p.DLQ.Plugin)
	histogramTo(to, dlqWritesDesc, &s.DeadLetters.Writes, engine.DurationBounds, p.Name, p.ID, p.DLQ.Plugin)
}

func collectLags(gauge func(*prometheus.Desc, float64, ...string), p *spec.Pipeline, running *engine.Pipeline) {
	for id, l := range running.Lags() {
		gauge(sequenceDesc, float64(l.Read), p.Name, p.ID, id, "read")
		gauge(sequenceDesc, float64(l.Settled), p.Name, p.ID, id, "settled")
		gauge(sequenceDesc, float64(l.Committed), p.Name, p.ID, id, "committed")
		gauge(sequenceDesc, float64(l.Acked), p.Name, p.ID, id, "acked")
		gauge(unackedDesc, l.OldestUnacked.Seconds(), p.Name, p.ID, id)
	}
}

func gaugeTo(to chan<- prometheus.Metric) func(*prometheus.Desc, float64, ...string) {
	return func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
}

func counterTo(to chan<- prometheus.Metric) func(*prometheus.Desc, uint64, ...string) {
	return func(d *prometheus.Desc, v uint64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
}

func histogramTo(to chan<- prometheus.Metric, d *prometheus.Desc, h *engine.Histogram, bounds []float64, labels ...string) {
	count, sum, within := h.Read(bounds)
	to <- prometheus.MustNewConstHistogram(d, count, sum, within, labels...)
}

// phases counts how often each pipeline entered each phase, and how attempts to run a
// version went.
type phases struct {
	attempts [2]atomic.Uint64 // that succeeded, that failed

	mu      sync.Mutex
	entered map[string]map[spec.Phase]uint64
	last    map[string]spec.State
}

func (p *phases) observe(s spec.State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.entered == nil {
		p.entered, p.last = map[string]map[spec.Phase]uint64{}, map[string]spec.State{}
	}
	last := p.last[s.PipelineID]
	p.last[s.PipelineID] = s
	if a := s.LastAttempt; a != nil && (last.LastAttempt == nil || !a.At.Equal(last.LastAttempt.At)) {
		failed := 0
		if a.Error != "" {
			failed = 1
		}
		p.attempts[failed].Add(1)
	}
	if last.Phase == s.Phase {
		return
	}
	if p.entered[s.PipelineID] == nil {
		p.entered[s.PipelineID] = map[spec.Phase]uint64{}
	}
	p.entered[s.PipelineID][s.Phase]++
}

func (p *phases) of(id string) map[spec.Phase]uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.entered[id])
}

// tally counts by name.
type tally struct {
	mu sync.Mutex
	n  map[string]uint64
}

func (t *tally) add(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n == nil {
		t.n = map[string]uint64{}
	}
	t.n[name]++
}

func (t *tally) all() map[string]uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.n)
}
