package otlp

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/conduit-agent/conduit/plugins/record"
)

// maxLinks is the maximum number of links of a span.
const maxLinks = 128

// contexts are the trace contexts that the records of a batch carry.
type contexts struct {
	links  []trace.Link // to each context, at most maxLinks
	all    bool         // every record carries one
	states bool         // a record has a tracestate
}

type spanID struct {
	trace trace.TraceID
	span  trace.SpanID
}

// contextsOf returns the valid trace contexts in the metadata of records.
func contextsOf(b *record.Batch) contexts {
	if _, ok := b.Lines(); ok {
		return contexts{} // lines of text carry none
	}
	c := contexts{all: true}
	seen, last := map[spanID]bool{}, ""
	for i := range b.Len() {
		parent := b.Metadata(i, record.KeyTraceParent)
		if parent == "" {
			c.all = false
			continue
		}
		state := b.Metadata(i, record.KeyTraceState)
		c.states = c.states || state != ""
		if parent == last {
			continue
		}
		last = parent
		sc := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(),
			propagation.MapCarrier{record.KeyTraceParent: parent, record.KeyTraceState: state}))
		if !sc.IsValid() {
			c.all = false
			continue
		}
		if id := (spanID{sc.TraceID(), sc.SpanID()}); !seen[id] && len(seen) < maxLinks {
			seen[id] = true
			c.links = append(c.links, trace.Link{SpanContext: sc})
		}
	}
	return c
}

// carry replaces the contexts of the records by the context of the span in ctx. states reports whether a record has a
// tracestate.
func carry(ctx context.Context, b *record.Batch, states bool) error {
	m := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, m)
	if err := b.SetMetadata(record.KeyTraceParent, m[record.KeyTraceParent]); err != nil {
		return err
	}
	state := m[record.KeyTraceState]
	switch {
	case state != "":
		return b.SetMetadata(record.KeyTraceState, state)
	case !states:
		return nil
	}
	records, err := b.Records()
	for i := range records {
		records[i].Metadata.Delete(record.KeyTraceState)
	}
	return err
}

// sampler samples one in n batches. A batch whose records carry contexts is sampled if one of these is.
func sampler(n int) sdktrace.Sampler {
	return sdktrace.ParentBased(linked{sdktrace.TraceIDRatioBased(1 / float64(n))})
}

// linked decides by the links of a span, without links as the Sampler.
type linked struct{ sdktrace.Sampler }

// ShouldSample implements trace.Sampler.
func (s linked) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	if len(p.Links) == 0 {
		return s.Sampler.ShouldSample(p)
	}
	for _, l := range p.Links {
		if l.SpanContext.IsSampled() {
			return sdktrace.AlwaysSample().ShouldSample(p)
		}
	}
	return sdktrace.NeverSample().ShouldSample(p)
}
