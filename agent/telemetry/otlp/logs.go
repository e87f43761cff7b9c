package otlp

import (
	"context"
	"fmt"
	"log/slog"

	"go.opentelemetry.io/contrib/bridges/otelslog"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"
)

// records sends log records.
type records struct {
	handler slog.Handler
	queue   *queue[sdklog.Record]
	close   func(context.Context) error
}

func newRecords(c *collector, about *resource.Resource, log *slog.Logger) (*records, error) {
	exporter, err := c.records(context.Background())
	if err != nil {
		return nil, fmt.Errorf("cannot prepare sending logs: %w", err)
	}
	r := &records{queue: newQueue(newHealth(log, "logs", c), exporter.Export), close: exporter.Shutdown}
	r.handler = otelslog.NewHandler(scope, otelslog.WithLoggerProvider(sdklog.NewLoggerProvider(
		sdklog.WithProcessor(recordProcessor{r.queue}), sdklog.WithResource(about),
		sdklog.WithAttributeCountLimit(attributeLimit), sdklog.WithAttributeValueLengthLimit(valueLimit))))
	return r, nil
}

// Limits of a span or log record.
const (
	attributeLimit = 128
	valueLimit     = 4 << 10 // bytes of text
)

func (r *records) run(ctx context.Context) error {
	_ = r.queue.run(ctx)
	return r.close(context.WithoutCancel(ctx))
}

// recordProcessor adds log records to a queue.
type recordProcessor struct{ *queue[sdklog.Record] }

// Enabled implements log.Processor. The handler of the agent's log decides.
func (recordProcessor) Enabled(context.Context, sdklog.EnabledParameters) bool { return true }

// OnEmit implements log.Processor.
func (p recordProcessor) OnEmit(_ context.Context, r *sdklog.Record) error {
	p.add(r.Clone())
	return nil
}

// Shutdown implements log.Processor.
func (recordProcessor) Shutdown(context.Context) error { return nil }

// ForceFlush implements log.Processor.
func (recordProcessor) ForceFlush(context.Context) error { return nil }
