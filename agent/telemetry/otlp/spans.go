package otlp

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/conduit-agent/conduit/agent/engine"
)

// Attributes of spans.
const (
	pipelineKey  = attribute.Key("conduit.pipeline.id")
	connectorKey = attribute.Key("conduit.connector.id")
	recordsKey   = attribute.Key("conduit.records")
)

// spans sends traces of batches. It implements engine.Tracer.
type spans struct {
	tracer trace.Tracer
	queue  *queue[sdktrace.ReadOnlySpan]
	close  func(context.Context) error
}

var _ engine.Tracer = (*spans)(nil)

func newSpans(c *collector, about *resource.Resource, oneIn int, log *slog.Logger) (*spans, error) {
	exporter, err := c.spans(context.Background())
	if err != nil {
		return nil, fmt.Errorf("cannot prepare sending traces: %w", err)
	}
	s := &spans{queue: newQueue(newHealth(log, "traces", c), exporter.ExportSpans), close: exporter.Shutdown}
	s.tracer = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spanProcessor{s.queue}),
		sdktrace.WithResource(about), sdktrace.WithSampler(sampler(oneIn)),
		sdktrace.WithRawSpanLimits(sdktrace.SpanLimits{AttributeValueLengthLimit: valueLimit,
			AttributeCountLimit: attributeLimit, EventCountLimit: attributeLimit, LinkCountLimit: maxLinks,
			AttributePerEventCountLimit: attributeLimit, AttributePerLinkCountLimit: attributeLimit})).Tracer(scope)
	return s, nil
}

func (s *spans) run(ctx context.Context) error {
	_ = s.queue.run(ctx)
	return s.close(context.WithoutCancel(ctx))
}

// Start implements engine.Tracer. The span of the batch has a link to each context that the records carry. If all carry
// the same one, the span also continues that trace. The records then carry the context of the span.
func (s *spans) Start(b engine.ReadBatch) engine.Trace {
	carried := contextsOf(b.Records)
	parent := context.Background()
	if carried.all && len(carried.links) == 1 {
		parent = trace.ContextWithRemoteSpanContext(parent, carried.links[0].SpanContext)
	}
	ctx, span := s.tracer.Start(parent, "batch "+b.Pipeline, trace.WithTimestamp(b.Begin),
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithLinks(carried.links...),
		trace.WithAttributes(pipelineKey.String(b.Pipeline), connectorKey.String(b.Source),
			recordsKey.Int(b.Records.Len())))
	if !span.IsRecording() {
		return nil
	}
	t := &batchSpan{ctx, span, s.tracer}
	t.Add(engine.TracedStage{Stage: "read", ID: b.Source, Records: b.Records.Len(), Begin: b.Begin, End: b.End})
	if err := carry(ctx, b.Records, carried.states); err != nil {
		span.AddEvent("the records keep their trace contexts: " + err.Error())
	}
	return t
}

// batchSpan is the span of a batch, with its children.
type batchSpan struct {
	ctx    context.Context // of the children of span
	span   trace.Span
	tracer trace.Tracer
}

// Add implements engine.Trace.
func (t *batchSpan) Add(s engine.TracedStage) {
	name, kind := s.Stage, trace.SpanKindInternal
	attributes := []attribute.KeyValue{recordsKey.Int(s.Records)}
	if s.ID != "" {
		name += " " + s.ID
		attributes = append(attributes, connectorKey.String(s.ID))
	}
	if s.Stage == engine.TracedWrite {
		kind = trace.SpanKindProducer
	}
	_, child := t.tracer.Start(t.ctx, name, trace.WithTimestamp(s.Begin), trace.WithSpanKind(kind),
		trace.WithAttributes(attributes...))
	end(child, s.End, s.Err)
}

// End implements engine.Trace.
func (t *batchSpan) End(err error) { end(t.span, time.Now(), err) }

func end(s trace.Span, at time.Time, err error) {
	if err != nil {
		s.SetStatus(codes.Error, err.Error())
	}
	s.End(trace.WithTimestamp(at))
}

// spanProcessor adds spans that have ended to a queue.
type spanProcessor struct{ *queue[sdktrace.ReadOnlySpan] }

// OnStart implements trace.SpanProcessor.
func (spanProcessor) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

// OnEnd implements trace.SpanProcessor.
func (p spanProcessor) OnEnd(s sdktrace.ReadOnlySpan) { p.add(s) }

// Shutdown implements trace.SpanProcessor.
func (spanProcessor) Shutdown(context.Context) error { return nil }

// ForceFlush implements trace.SpanProcessor.
func (spanProcessor) ForceFlush(context.Context) error { return nil }
