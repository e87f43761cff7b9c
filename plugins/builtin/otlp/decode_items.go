package otlp

import (
	"fmt"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
)

// Names of enumerated values, by number. The first one is omitted.
var (
	kindNames        = []string{"", "internal", "server", "client", "producer", "consumer"}
	statusNames      = []string{"", "ok", "error"}
	temporalityNames = []string{"", "delta", "cumulative"}
)

// Kinds of metrics.
const (
	gauge                = "gauge"
	sum                  = "sum"
	histogram            = "histogram"
	exponentialHistogram = "exponentialHistogram"
	summary              = "summary"
)

// Types of the value of a data point.
const (
	valueInt    = "int"
	valueDouble = "double"
)

// logRecord returns a log record as a payload.
func (d *decoder) logRecord(l *logs.LogRecord) (object, error) {
	o := make(object, 12)
	o.time("time", l.GetTimeUnixNano())
	o.time("observedTime", l.GetObservedTimeUnixNano())
	o.number("severityNumber", int64(l.GetSeverityNumber()))
	o.text("severityText", l.GetSeverityText())
	o.text("eventName", l.GetEventName())
	o.number("droppedAttributesCount", int64(l.GetDroppedAttributesCount()))
	o.number("flags", int64(l.GetFlags()))
	if err := o.id("traceId", l.GetTraceId(), traceIDBytes); err != nil {
		return nil, err
	}
	if err := o.id("spanId", l.GetSpanId(), spanIDBytes); err != nil {
		return nil, err
	}
	if l.Body != nil {
		d.enter("body")
		body, err := d.value(l.Body, 1)
		if err != nil {
			return nil, err
		}
		d.leave()
		o["body"] = body
	}
	return o, o.attributes(d, "attributes", l.GetAttributes())
}

// span returns a span as a payload.
func (d *decoder) span(s *trace.Span) (object, error) {
	o := make(object, 16)
	for _, id := range []struct {
		key   string
		value []byte
		size  int
	}{{"traceId", s.GetTraceId(), traceIDBytes}, {"spanId", s.GetSpanId(), spanIDBytes},
		{"parentSpanId", s.GetParentSpanId(), spanIDBytes}} {
		if err := o.id(id.key, id.value, id.size); err != nil {
			return nil, err
		}
	}
	o.text("traceState", s.GetTraceState())
	o.number("flags", int64(s.GetFlags()))
	o.text("name", s.GetName())
	o.name("kind", int32(s.GetKind()), kindNames)
	o.time("startTime", s.GetStartTimeUnixNano())
	o.time("endTime", s.GetEndTimeUnixNano())
	o.number("droppedAttributesCount", int64(s.GetDroppedAttributesCount()))
	o.number("droppedEventsCount", int64(s.GetDroppedEventsCount()))
	o.number("droppedLinksCount", int64(s.GetDroppedLinksCount()))
	if status := s.GetStatus(); status != nil {
		one := object{}
		one.name("code", int32(status.GetCode()), statusNames)
		one.text("message", status.GetMessage())
		o["status"] = map[string]any(one)
	}
	if err := decodeList(d, o, "events", s.GetEvents(), d.event); err != nil {
		return nil, err
	}
	if err := decodeList(d, o, "links", s.GetLinks(), d.link); err != nil {
		return nil, err
	}
	return o, o.attributes(d, "attributes", s.GetAttributes())
}

// decodeList sets a list of objects.
func decodeList[T any](d *decoder, o object, key string, all []T, decode func(T) (object, error)) error {
	if len(all) == 0 {
		return nil
	}
	list := make([]any, len(all))
	d.enter(key)
	for i, one := range all {
		d.enterIndex(i)
		item, err := decode(one)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		d.leave()
		list[i] = map[string]any(item)
	}
	d.leave()
	o[key] = list
	return nil
}

func (d *decoder) event(e *trace.Span_Event) (object, error) {
	o := object{}
	o.time("time", e.GetTimeUnixNano())
	o.text("name", e.GetName())
	o.number("droppedAttributesCount", int64(e.GetDroppedAttributesCount()))
	return o, o.attributes(d, "attributes", e.GetAttributes())
}

func (d *decoder) link(l *trace.Span_Link) (object, error) {
	o := object{}
	if err := o.id("traceId", l.GetTraceId(), traceIDBytes); err != nil {
		return nil, err
	}
	if err := o.id("spanId", l.GetSpanId(), spanIDBytes); err != nil {
		return nil, err
	}
	o.text("traceState", l.GetTraceState())
	o.number("flags", int64(l.GetFlags()))
	o.number("droppedAttributesCount", int64(l.GetDroppedAttributesCount()))
	return o, o.attributes(d, "attributes", l.GetAttributes())
}

// metric returns an object with the fields of a metric that its data points have in common.
func (d *decoder) metric(m *metrics.Metric) (object, error) {
	o := make(object, 16)
	o.text("name", m.GetName())
	o.text("description", m.GetDescription())
	o.text("unit", m.GetUnit())
	switch data := m.GetData().(type) {
	case *metrics.Metric_Gauge:
		o["type"] = gauge
	case *metrics.Metric_Sum:
		o["type"] = sum
		o.name("temporality", int32(data.Sum.GetAggregationTemporality()), temporalityNames)
		if data.Sum.GetIsMonotonic() {
			o["monotonic"] = true
		}
	case *metrics.Metric_Histogram:
		o["type"] = histogram
		o.name("temporality", int32(data.Histogram.GetAggregationTemporality()), temporalityNames)
	case *metrics.Metric_ExponentialHistogram:
		o["type"] = exponentialHistogram
		o.name("temporality", int32(data.ExponentialHistogram.GetAggregationTemporality()), temporalityNames)
	case *metrics.Metric_Summary:
		o["type"] = summary
	}
	return o, o.attributes(d, "metadata", m.GetMetadata())
}

// number adds the fields of a data point of a gauge or a sum.
func (d *decoder) number(o object, p *metrics.NumberDataPoint) error {
	switch v := p.GetValue().(type) {
	case *metrics.NumberDataPoint_AsInt:
		o["value"], o["valueType"] = v.AsInt, valueInt
	case *metrics.NumberDataPoint_AsDouble:
		o["value"], o["valueType"] = v.AsDouble, valueDouble
	}
	return d.point(o, p)
}

// point is a data point of any kind.
type point interface {
	GetAttributes() []*common.KeyValue
	GetStartTimeUnixNano() uint64
	GetTimeUnixNano() uint64
	GetFlags() uint32
}

// point adds the fields that data points of all kinds have.
func (d *decoder) point(o object, p point) error {
	o.time("startTime", p.GetStartTimeUnixNano())
	o.time("time", p.GetTimeUnixNano())
	o.number("flags", int64(p.GetFlags()))
	if measured, ok := p.(interface{ GetExemplars() []*metrics.Exemplar }); ok {
		if err := decodeList(d, o, "exemplars", measured.GetExemplars(), d.exemplar); err != nil {
			return err
		}
	}
	return o.attributes(d, "attributes", p.GetAttributes())
}

func (d *decoder) exemplar(e *metrics.Exemplar) (object, error) {
	o := object{}
	switch v := e.GetValue().(type) {
	case *metrics.Exemplar_AsInt:
		o["value"], o["valueType"] = v.AsInt, valueInt
	case *metrics.Exemplar_AsDouble:
		o["value"], o["valueType"] = v.AsDouble, valueDouble
	}
	o.time("time", e.GetTimeUnixNano())
	if err := o.id("traceId", e.GetTraceId(), traceIDBytes); err != nil {
		return nil, err
	}
	if err := o.id("spanId", e.GetSpanId(), spanIDBytes); err != nil {
		return nil, err
	}
	return o, o.attributes(d, "filteredAttributes", e.GetFilteredAttributes())
}

func (o object) float(key string, value *float64) {
	if value != nil {
		o[key] = *value
	}
}

func (o object) counts(key string, all []uint64) {
	if len(all) == 0 {
		return
	}
	list := make([]any, len(all))
	for i, n := range all {
		list[i] = unsigned(n)
	}
	o[key] = list
}

func (d *decoder) histogram(o object, p *metrics.HistogramDataPoint) error {
	o.count("count", p.GetCount())
	o.float("sum", p.Sum)
	o.float("min", p.Min)
	o.float("max", p.Max)
	o.counts("bucketCounts", p.GetBucketCounts())
	if bounds := p.GetExplicitBounds(); len(bounds) > 0 {
		list := make([]any, len(bounds))
		for i, b := range bounds {
			list[i] = b
		}
		o["explicitBounds"] = list
	}
	return d.point(o, p)
}

func (d *decoder) exponentialHistogram(o object, p *metrics.ExponentialHistogramDataPoint) error {
	o.count("count", p.GetCount())
	o.float("sum", p.Sum)
	o.float("min", p.Min)
	o.float("max", p.Max)
	o.number("scale", int64(p.GetScale()))
	o.count("zeroCount", p.GetZeroCount())
	if z := p.GetZeroThreshold(); z != 0 {
		o["zeroThreshold"] = z
	}
	o.buckets("positive", p.GetPositive())
	o.buckets("negative", p.GetNegative())
	return d.point(o, p)
}

func (o object) buckets(key string, b *metrics.ExponentialHistogramDataPoint_Buckets) {
	if b == nil {
		return
	}
	one := object{}
	one.number("offset", int64(b.GetOffset()))
	one.counts("bucketCounts", b.GetBucketCounts())
	o[key] = map[string]any(one)
}

func (d *decoder) summary(o object, p *metrics.SummaryDataPoint) error {
	o.count("count", p.GetCount())
	o["sum"] = p.GetSum()
	if all := p.GetQuantileValues(); len(all) > 0 {
		list := make([]any, len(all))
		for i, q := range all {
			list[i] = map[string]any{"quantile": q.GetQuantile(), "value": q.GetValue()}
		}
		o["quantileValues"] = list
	}
	return d.point(o, p)
}
