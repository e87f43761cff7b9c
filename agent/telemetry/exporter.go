package telemetry

import (
	"context"
	"errors"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/engine"
)

// ErrNoExporter refuses the settings of a collector in a binary that cannot send to one.
var ErrNoExporter = errors.New("this binary does not send telemetry to a collector: remove telemetry.otlp.endpoint " +
	"from the settings, or use the full binary")

// ExporterSetup describes the agent to an Exporter.
type ExporterSetup struct {
	Settings config.Telemetry
	Version  string
	Instance string       // name of the agent; "": the name of the host
	Log      *slog.Logger // of the exporter itself
}

// Exporter sends telemetry of the agent to a collector.
type Exporter interface {
	// Tracer returns the tracer of all pipelines, nil if traces are not sent.
	Tracer() engine.Tracer
	// Handler returns a handler that sends log records without blocking, nil if logs are not sent.
	Handler() slog.Handler
	// Run sends until ctx ends, and then the rest, in bounded time. It gathers the metrics from g.
	Run(ctx context.Context, g prometheus.Gatherer) error
	// Counts calls f for each signal that is sent, with the number of spans, of log records, or of transmissions of all
	// metrics, since the start.
	Counts(f func(signal string, sent, dropped uint64))
	// Check calls report for each problem of sending to the collector, with its remedy, and sends nothing.
	Check(ctx context.Context, report func(problem error, remedy string))
}

// NoExporter is the Exporter of an agent that sends nothing.
type NoExporter struct{}

// Tracer implements Exporter.
func (NoExporter) Tracer() engine.Tracer { return nil }

// Handler implements Exporter.
func (NoExporter) Handler() slog.Handler { return nil }

// Run implements Exporter.
func (NoExporter) Run(context.Context, prometheus.Gatherer) error { return nil }

// Counts implements Exporter.
func (NoExporter) Counts(func(signal string, sent, dropped uint64)) {}

// Check implements Exporter.
func (NoExporter) Check(context.Context, func(problem error, remedy string)) {}

// Tee returns a handler that passes what next logs also to other, unless other is nil.
func Tee(next, other slog.Handler) slog.Handler {
	if other == nil {
		return next
	}
	return &tee{next, other}
}

type tee struct{ next, other slog.Handler }

// Enabled implements slog.Handler.
func (t *tee) Enabled(ctx context.Context, l slog.Level) bool { return t.next.Enabled(ctx, l) }

// Handle implements slog.Handler.
func (t *tee) Handle(ctx context.Context, r slog.Record) error {
	return errors.Join(t.next.Handle(ctx, r), t.other.Handle(ctx, r.Clone()))
}

// WithAttrs implements slog.Handler.
func (t *tee) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &tee{t.next.WithAttrs(attrs), t.other.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (t *tee) WithGroup(name string) slog.Handler {
	return &tee{t.next.WithGroup(name), t.other.WithGroup(name)}
}
