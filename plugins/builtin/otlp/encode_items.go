package otlp

import (
	"fmt"

	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
)

func (f *fields) logRecord() *logs.LogRecord {
	l := &logs.LogRecord{
		TimeUnixNano: f.time("time"), ObservedTimeUnixNano: f.time("observedTime"),
		SeverityNumber: logs.SeverityNumber(f.int32("severityNumber")), SeverityText: f.text("severityText"),
		EventName: f.text("eventName"), DroppedAttributesCount: f.uint32("droppedAttributesCount"),
		Flags: f.uint32("flags"), TraceId: f.id("traceId", traceIDBytes), SpanId: f.id("spanId", spanIDBytes),
		Attributes: f.attributes("attributes"),
	}
	f.get("body")
	if body, ok := f.values["body"]; ok && f.err == nil {
		f.encoder.enter(step{key: "body"})
		if l.Body, f.err = f.encoder.value(body, 1); f.err == nil {
			f.encoder.leave()
		}
	}
	return l
}

func (f *fields) span() *trace.Span {
	s := &trace.Span{
		TraceId: f.id("traceId", traceIDBytes), SpanId: f.id("spanId", spanIDBytes),
		ParentSpanId: f.id("parentSpanId", spanIDBytes), TraceState: f.text("traceState"), Flags: f.uint32("flags"),
		Name: f.text("name"), Kind: trace.Span_SpanKind(f.name("kind", kindNames)),
		StartTimeUnixNano: f.time("startTime"), EndTimeUnixNano: f.time("endTime"),
		DroppedAttributesCount: f.uint32("droppedAttributesCount"), DroppedEventsCount: f.uint32("droppedEventsCount"),
		DroppedLinksCount: f.uint32("droppedLinksCount"), Attributes: f.attributes("attributes"),
		Events: encodeList(f, "events", "an event", (*fields).event), Links: encodeList(f, "links", "a link",
			(*fields).link),
	}
	if o, ok := f.object("status"); ok && f.err == nil {
		status := f.encoder.fields(o)
		s.Status = &trace.Status{Code: trace.Status_StatusCode(status.name("code", statusNames)),
			Message: status.text("message")}
		f.err = status.end("a status")
	}
	return s
}

func (f *fields) event() *trace.Span_Event {
	return &trace.Span_Event{TimeUnixNano: f.time("time"), Name: f.text("name"),
		DroppedAttributesCount: f.uint32("droppedAttributesCount"), Attributes: f.attributes("attributes")}
}

func (f *fields) link() *trace.Span_Link {
	return &trace.Span_Link{TraceId: f.id("traceId", traceIDBytes), SpanId: f.id("spanId", spanIDBytes),
		TraceState: f.text("traceState"), Flags: f.uint32("flags"),
		DroppedAttributesCount: f.uint32("droppedAttributesCount"), Attributes: f.attributes("attributes")}
}

// metric returns a metric with one data point.
func (f *fields) metric() *metrics.Metric {
	m := &metrics.Metric{Name: f.text("name"), Description: f.text("description"), Unit: f.text("unit"),
		Metadata: f.attributes("metadata")}
	switch kind := f.text("type"); kind {
	case gauge:
		m.Data = &metrics.Metric_Gauge{Gauge: &metrics.Gauge{DataPoints: []*metrics.NumberDataPoint{f.number()}}}
	case sum:
		m.Data = &metrics.Metric_Sum{Sum: &metrics.Sum{AggregationTemporality: f.temporality(),
			IsMonotonic: f.bool("monotonic"), DataPoints: []*metrics.NumberDataPoint{f.number()}}}
	case histogram:
		m.Data = &metrics.Metric_Histogram{Histogram: &metrics.Histogram{AggregationTemporality: f.temporality(),
			DataPoints: []*metrics.HistogramDataPoint{f.histogram()}}}
	case exponentialHistogram:
		m.Data = &metrics.Metric_ExponentialHistogram{ExponentialHistogram: &metrics.ExponentialHistogram{
			AggregationTemporality: f.temporality(),
			DataPoints:             []*metrics.ExponentialHistogramDataPoint{f.exponentialHistogram()}}}
	case summary:
		m.Data = &metrics.Metric_Summary{Summary: &metrics.Summary{
			DataPoints: []*metrics.SummaryDataPoint{f.summary()}}}
	default:
		f.fail("type", fmt.Sprintf("one of %q", []string{gauge, sum, histogram, exponentialHistogram, summary}))
	}
	return m
}

func (f *fields) temporality() metrics.AggregationTemporality {
	return metrics.AggregationTemporality(f.name("temporality", temporalityNames))
}

// number returns a data point of a gauge or a sum.
func (f *fields) number() *metrics.NumberDataPoint {
	p := &metrics.NumberDataPoint{Attributes: f.attributes("attributes"), StartTimeUnixNano: f.time("startTime"),
		TimeUnixNano: f.time("time"), Flags: f.uint32("flags"), Exemplars: f.exemplars()}
	switch n, d := f.value(); {
	case n != nil:
		p.Value = &metrics.NumberDataPoint_AsInt{AsInt: *n}
	case d != nil:
		p.Value = &metrics.NumberDataPoint_AsDouble{AsDouble: *d}
	}
	return p
}

// value returns the value of a data point as an integer or a double. Without valueType a whole number is an integer.
func (f *fields) value() (*int64, *float64) {
	v, ok := f.get("value")
	kind := f.text("valueType")
	if !ok {
		return nil, nil
	}
	n, isInt := asInt(v)
	d, isNumber := asFloat(v)
	switch {
	case isInt && kind != valueDouble:
		return &n, nil
	case !isNumber:
		f.fail("value", "a number")
	case kind == valueInt:
		f.fail("value", "a whole number, as valueType says")
	case kind != valueDouble && kind != "":
		f.fail("valueType", fmt.Sprintf("%q or %q", valueInt, valueDouble))
	}
	return nil, &d
}

func (f *fields) exemplars() []*metrics.Exemplar {
	return encodeList(f, "exemplars", "an exemplar", func(f *fields) *metrics.Exemplar {
		e := &metrics.Exemplar{TimeUnixNano: f.time("time"), TraceId: f.id("traceId", traceIDBytes),
			SpanId: f.id("spanId", spanIDBytes), FilteredAttributes: f.attributes("filteredAttributes")}
		switch n, d := f.value(); {
		case n != nil:
			e.Value = &metrics.Exemplar_AsInt{AsInt: *n}
		case d != nil:
			e.Value = &metrics.Exemplar_AsDouble{AsDouble: *d}
		}
		return e
	})
}

func (f *fields) histogram() *metrics.HistogramDataPoint {
	return &metrics.HistogramDataPoint{Attributes: f.attributes("attributes"), StartTimeUnixNano: f.time("startTime"),
		TimeUnixNano: f.time("time"), Flags: f.uint32("flags"), Exemplars: f.exemplars(), Count: f.uint("count"),
		Sum: f.float("sum"), Min: f.float("min"), Max: f.float("max"), BucketCounts: f.counts("bucketCounts"),
		ExplicitBounds: f.floats("explicitBounds")}
}

func (f *fields) exponentialHistogram() *metrics.ExponentialHistogramDataPoint {
	return &metrics.ExponentialHistogramDataPoint{Attributes: f.attributes("attributes"),
		StartTimeUnixNano: f.time("startTime"), TimeUnixNano: f.time("time"), Flags: f.uint32("flags"),
		Exemplars: f.exemplars(), Count: f.uint("count"), Sum: f.float("sum"), Min: f.float("min"), Max: f.float("max"),
		Scale: f.int32("scale"), ZeroCount: f.uint("zeroCount"), ZeroThreshold: orZero(f.float("zeroThreshold")),
		Positive: f.buckets("positive"), Negative: f.buckets("negative")}
}

func (f *fields) buckets(key string) *metrics.ExponentialHistogramDataPoint_Buckets {
	o, ok := f.object(key)
	if !ok || f.err != nil {
		return nil
	}
	inner := f.encoder.fields(o)
	b := &metrics.ExponentialHistogramDataPoint_Buckets{Offset: inner.int32("offset"),
		BucketCounts: inner.counts("bucketCounts")}
	if err := inner.end("buckets"); err != nil {
		f.err = fmt.Errorf("%s: %w", key, err)
	}
	return b
}

func (f *fields) summary() *metrics.SummaryDataPoint {
	return &metrics.SummaryDataPoint{Attributes: f.attributes("attributes"), StartTimeUnixNano: f.time("startTime"),
		TimeUnixNano: f.time("time"), Flags: f.uint32("flags"), Count: f.uint("count"), Sum: orZero(f.float("sum")),
		QuantileValues: encodeList(f, "quantileValues", "a quantile",
			func(f *fields) *metrics.SummaryDataPoint_ValueAtQuantile {
				return &metrics.SummaryDataPoint_ValueAtQuantile{Quantile: orZero(f.float("quantile")),
					Value: orZero(f.float("value"))}
			})}
}

func orZero(f *float64) float64 {
	if f == nil {
		return 0
	}
	return *f
}
