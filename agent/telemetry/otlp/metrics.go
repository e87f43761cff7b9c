package otlp

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
)

// series sends the metrics of Prometheus, all at once.
type series struct {
	metric.Exporter
	about    *resource.Resource
	interval time.Duration
	health   *health

	sent, dropped atomic.Uint64 // transmissions
}

func newSeries(c *collector, about *resource.Resource, interval time.Duration, log *slog.Logger) (*series, error) {
	if interval < time.Second {
		return nil, fmt.Errorf("cannot use telemetry.metrics.interval: it must be at least 1s, not %v", interval)
	}
	exporter, err := c.series(context.Background())
	if err != nil {
		return nil, fmt.Errorf("cannot prepare sending metrics: %w", err)
	}
	return &series{Exporter: exporter, about: about, interval: interval,
		health: newHealth(log, "metrics", c)}, nil
}

// run sends until ctx ends, and then once more.
func (s *series) run(ctx context.Context, g prometheus.Gatherer) error {
	provider := metric.NewMeterProvider(metric.WithResource(s.about), metric.WithReader(metric.NewPeriodicReader(s,
		metric.WithInterval(s.interval), metric.WithTimeout(pace.export),
		metric.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(g))))))
	<-ctx.Done()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), pace.flush)
	defer cancel()
	_ = provider.Shutdown(last) // Export has recorded a failure
	return nil
}

// Export implements metric.Exporter.
func (s *series) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	if err := s.Exporter.Export(ctx, m); err != nil {
		s.dropped.Add(1)
		s.health.failed(err)
		return nil // the SDK would report it, too
	}
	s.sent.Add(1)
	s.health.succeeded(s.dropped.Load())
	return nil
}
