// Package otlp sends the agent's own traces, metrics and logs to an OpenTelemetry collector, with OTLP. A collector
// that is slow or cannot be reached costs telemetry, which is counted, and never holds up a pipeline.
package otlp

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	"golang.org/x/sync/errgroup"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/engine"
)

// Options describe the agent.
type Options struct {
	Settings config.Telemetry
	Version  string
	Instance string       // name of the agent; "": the name of the host
	Log      *slog.Logger // its entries are not sent
}

// Exporter sends the signals that the settings select.
type Exporter struct {
	settings config.OTLP
	spans    *spans
	records  *records
	series   *series
}

// scope is the name of the instrumentation scope of spans and log records.
const scope = "github.com/conduit-agent/conduit"

// New returns an exporter with these settings, which must have an endpoint. It connects to nothing.
func New(o Options) (*Exporter, error) {
	c, err := newCollector(&o.Settings.OTLP)
	if err != nil {
		return nil, err
	}
	// The SDK would write to stderr that a collector refused a part, or that a variable, which is not used, is wrong.
	otel.SetLogger(logr.Discard())
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		o.Log.Debug("telemetry was not sent completely", "component", "telemetry", "err", err)
	}))
	selected := strings.FieldsFunc(o.Settings.Signals, func(r rune) bool { return r == ',' || r == ' ' })
	e, about := &Exporter{settings: o.Settings.OTLP}, about(&o, c.attributes)
	if slices.Contains(selected, "traces") {
		if e.spans, err = newSpans(c, about, o.Settings.Traces.OneIn, o.Log); err != nil {
			return nil, err
		}
	}
	if slices.Contains(selected, "logs") {
		if e.records, err = newRecords(c, about, o.Log); err != nil {
			return nil, err
		}
	}
	if slices.Contains(selected, "metrics") {
		if e.series, err = newSeries(c, about, o.Settings.Metrics.Interval, o.Log); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// about returns the resource: the agent.
func about(o *Options, attributes []attribute.KeyValue) *resource.Resource {
	host, _ := os.Hostname()
	return resource.NewSchemaless(append([]attribute.KeyValue{
		attribute.String("service.name", "conduit"),
		attribute.String("service.version", o.Version),
		attribute.String("service.instance.id", cmp.Or(o.Instance, host)),
		attribute.String("host.name", host),
	}, attributes...)...)
}

// Tracer returns the tracer of all pipelines, nil if traces are not sent.
func (e *Exporter) Tracer() engine.Tracer {
	if e.spans == nil {
		return nil
	}
	return e.spans
}

// Handler returns a handler that sends log records, nil if logs are not sent. It does not block.
func (e *Exporter) Handler() slog.Handler {
	if e.records == nil {
		return nil
	}
	return e.records.handler
}

// Run sends until ctx ends, and then the rest. It gathers the metrics from g.
func (e *Exporter) Run(ctx context.Context, g prometheus.Gatherer) error {
	var group errgroup.Group
	if e.spans != nil {
		group.Go(func() error { return e.spans.run(ctx) })
	}
	if e.records != nil {
		group.Go(func() error { return e.records.run(ctx) })
	}
	if e.series != nil {
		group.Go(func() error { return e.series.run(ctx, g) })
	}
	return group.Wait()
}

// Counts calls f for each signal that is sent, with the number of spans, log records, or transmissions of all metrics.
func (e *Exporter) Counts(f func(signal string, sent, dropped uint64)) {
	if e.spans != nil {
		f("traces", e.spans.queue.sent.Load(), e.spans.queue.dropped.Load())
	}
	if e.records != nil {
		f("logs", e.records.queue.sent.Load(), e.records.queue.dropped.Load())
	}
	if e.series != nil {
		f("metrics", e.series.sent.Load(), e.series.dropped.Load())
	}
}
