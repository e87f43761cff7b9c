// Package telemetry publishes the counters that the parts of the agent keep: as metrics for Prometheus, with alert
// rules and a dashboard for Grafana, and as a summary in one line for people.
package telemetry

import (
	"context"
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/api"
	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/reconcile"
	"github.com/conduit-agent/conduit/reconcile/files"
	"github.com/conduit-agent/conduit/spec"
)

// Store is the desired state.
type Store interface {
	Declarations(ctx context.Context) ([]spec.Declaration, error)
	FileStates(ctx context.Context) ([]spec.FileState, error)
}

// Isolation measures isolated destinations.
type Isolation interface {
	// Backlogs returns the state of each isolated destination of a running pipeline, by qualified id.
	Backlogs(p *engine.Pipeline) map[string]spec.Backlog
	// Measure emits the metrics of a backlog. All have the same labels.
	Measure(b *spec.Backlog, emit func(name, help string, counter bool, value float64))
}

// Runs gives access to running pipelines and their counters.
type Runs interface {
	Running() map[string]*engine.Pipeline
	Stats() map[string]*measure.Pipeline
	Starts() map[string]uint64   // of connectors, by plugin
	Restarts() map[string]uint64 // of connectors for a run, by plugin
	// Processor returns the counters of a processor by its qualified id, nil if it never ran.
	Processor(pipelineID, id string) *processor.Stats
	// EachProcessor calls f for every processor of a pipeline that ran, by its qualified id.
	EachProcessor(pipelineID string, f func(id string, stats *processor.Stats))
	// Pipeline returns a running pipeline, and its stats. Either is nil if it does not exist.
	Pipeline(id string) (*engine.Pipeline, *measure.Pipeline)
}

// Collector collects the metrics of an agent. Names and labels match those of Conduit where the meaning is the same.
// All fields but API are set before use.
type Collector struct {
	Version   string
	Store     Store
	Runs      Runs
	Isolation Isolation // nil: there are no isolated destinations
	Loop      *reconcile.Loop
	Files     *files.Reconciler
	Committer *engine.Committer
	Syncs     *measure.Histogram // seconds to write a transaction of the store to disk
	Memory    func() spec.RecordMemory
	Phases    *Phases
	Processes func() []plugins.Process // of connectors
	API       func() api.Stats         // nil while the API is not served
	Cluster   func() Cluster           // nil for an agent outside a cluster
	// DeadLetters returns the number and size of dead letters by pipeline, and the number settled by replays since the
	// start.
	DeadLetters func(ctx context.Context) (totals []spec.DeadLetterTotals, replayed uint64)
	// Silent reports, for each pipeline that has a max-silence, whether it is silent.
	Silent func() map[string]bool
	// Notifications calls f with the number of notifications by target and result.
	Notifications func(f func(target, result string, n uint64))
	// Exported calls f for each signal that is sent to a collector.
	Exported func(f func(signal string, sent, dropped uint64))
}

// Handler returns the handler of /metrics.
func (c *Collector) Handler() http.Handler {
	return promhttp.HandlerFor(c.Gatherer(), promhttp.HandlerOpts{})
}

// Gatherer returns a registry with the metrics of the agent and the process.
func (c *Collector) Gatherer() prometheus.Gatherer {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), c)
	return r
}

// Describe sends nothing: the series depend on the declarations.
func (c *Collector) Describe(chan<- *prometheus.Desc) {}

// Collect reads everything once.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	gauge, counter := gaugeTo(to), counterTo(to)
	gauge(infoDesc, 1, c.Version)
	c.directory(gauge)
	histogramTo(to, commitsDesc, &c.Committer.Commits, measure.DurationBounds)
	histogramTo(to, syncsDesc, c.Syncs, measure.DurationBounds)
	counter(committedDesc, c.Committer.Committed.Load())
	memory := c.Memory()
	gauge(memoryDesc, float64(memory.Bytes))
	gauge(memoryUsedDesc, float64(memory.Used))
	memory.By.Each(func(use string, bytes int64) { gauge(memoryByUseDesc, float64(bytes), use) })
	gauge(memoryWaitingDesc, float64(memory.Waiting))
	c.connectors(gauge, counter)
	succeeded, failed := c.Phases.Attempts()
	counter(attemptsDesc, succeeded, "ok")
	counter(attemptsDesc, failed, "error")
	c.api(gauge, counter)
	c.deadLetters(gauge, counter)
	spools(gauge, counter)
	c.cluster(gauge, counter)
	c.notify(gauge, counter)
	c.pipelines(to)
}

// notify reports silent pipelines, and the results of notifications and of sending telemetry.
func (c *Collector) notify(gauge gauge, counter counter) {
	for id, silent := range c.Silent() {
		value := 0.0
		if silent {
			value = 1
		}
		gauge(silentDesc, value, id)
	}
	c.Notifications(func(target, result string, n uint64) { counter(notificationsDesc, n, target, result) })
	c.Exported(func(signal string, sent, dropped uint64) {
		counter(exportedDesc, sent, signal, "sent")
		counter(exportedDesc, dropped, signal, "dropped")
	})
}

// deadLetters reports the dead letters in the store.
func (c *Collector) deadLetters(gauge gauge, counter counter) {
	totals, replayed := c.DeadLetters(context.Background())
	for _, t := range totals {
		gauge(deadLettersDesc, float64(t.Count), t.PipelineID)
		gauge(deadLetterBytesDesc, float64(t.Bytes), t.PipelineID)
		counter(deadLettersDroppedDesc, t.Dropped, t.PipelineID)
	}
	counter(deadLettersReplayedDesc, replayed)
}

func (c *Collector) directory(gauge gauge) {
	for _, state := range spec.DirectoryStates {
		in := 0.0
		if state == c.Files.Status().Directory.State {
			in = 1
		}
		gauge(directoryDesc, in, string(state))
	}
	files, err := c.Store.FileStates(context.Background())
	if err != nil {
		return // the store cannot be read; the other metrics are sent
	}
	wrong := 0
	for i := range files {
		if slices.ContainsFunc(files[i].Problems, func(p spec.Problem) bool {
			return p.Severity == spec.SeverityError
		}) {
			wrong++
		}
	}
	gauge(filesDesc, float64(wrong))
}

// connectors reports the counters of the plugin host.
func (c *Collector) connectors(gauge gauge, counter counter) {
	for plugin, n := range c.Runs.Starts() {
		counter(startsDesc, n, plugin)
	}
	for plugin, n := range c.Runs.Restarts() {
		counter(restartsDesc, n, plugin)
	}
	resident, fds := map[string]float64{}, map[string]float64{} // while a pipeline changes, a connector may have two
	for _, p := range c.Processes() {
		if u, ok := usageOf(p.PID); ok {
			resident[p.ConnectorID] += float64(u.resident)
			fds[p.ConnectorID] += float64(u.fds)
		}
	}
	for id := range resident {
		gauge(residentDesc, resident[id], id)
		gauge(fdsDesc, fds[id], id)
	}
}

// usage is the resource usage of a process.
type usage struct {
	resident uint64 // bytes
	fds      int    // open file descriptors
}

func (c *Collector) api(gauge gauge, counter counter) {
	if c.API == nil {
		return
	}
	stats := c.API()
	for id, n := range stats.Sessions {
		gauge(sessionsDesc, float64(n), id)
	}
	for id, n := range stats.Dropped {
		counter(droppedDesc, n, id)
	}
	counter(panicsDesc, stats.Panics)
	if !stats.Expiry.IsZero() {
		gauge(expiryDesc, float64(stats.Expiry.Unix()))
	}
}

type (
	gauge   func(d *prometheus.Desc, v float64, labels ...string)
	counter func(d *prometheus.Desc, v uint64, labels ...string)
)

func gaugeTo(to chan<- prometheus.Metric) gauge {
	return func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
}

func counterTo(to chan<- prometheus.Metric) counter {
	return func(d *prometheus.Desc, v uint64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
}

func histogramTo(
	to chan<- prometheus.Metric, d *prometheus.Desc, h *measure.Histogram, bounds []float64, labels ...string,
) {
	count, sum, within := h.Read(bounds)
	to <- prometheus.MustNewConstHistogram(d, count, sum, within, labels...)
}
