package otlp

import (
	"encoding/json"
	"errors"
	"fmt"

	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/conduit-agent/conduit/plugins/record"
)

// item is a record as a message: a log record, a span, a metric with one data point, or a whole request.
type item struct {
	signal *signal
	head   head
	item   proto.Message

	request  []byte // whole request; then there is no item
	encoding string // of request
}

// size returns about the number of bytes of the item in a request.
func (i *item) size() int {
	if i.item == nil {
		return len(i.request)
	}
	return proto.Size(i.item)
}

// itemOf converts a record. It returns nil for a record that no otlp source made.
func itemOf(r *record.Record) (*item, error) {
	name := r.Metadata.Get(keySignal)
	if name == "" {
		return nil, nil
	}
	s := signalOf(name)
	if s == nil {
		return nil, fmt.Errorf("the metadata %s is %q instead of logs, metrics or traces", keySignal, name)
	}
	if encoding := r.Metadata.Get(keyEncoding); encoding != "" {
		body, ok := r.After.Raw()
		if !ok {
			return nil, fmt.Errorf("the payload is not the bytes that the metadata %s announce", keyEncoding)
		}
		return &item{signal: s, request: body, encoding: encoding}, nil
	}
	payload, ok := r.After.Structured()
	if !ok {
		return nil, errors.New("the payload is not an object: remove the metadata " + keySignal + " to send it as a log")
	}
	e := encoder{}
	if text := r.Metadata.Get(keyTypes); text != "" {
		if err := json.Unmarshal([]byte(text), &e.types); err != nil {
			return nil, fmt.Errorf("the metadata %s are no object of texts: %w", keyTypes, err)
		}
	}
	i := &item{signal: s}
	f := e.fields(payload)
	res, err := f.part("resource", keyResource, r.Metadata)
	if err != nil {
		return nil, err
	}
	scope, err := f.part("scope", keyScope, r.Metadata)
	if err != nil {
		return nil, err
	}
	switch s {
	case logsSignal:
		i.item = f.logRecord()
	case tracesSignal:
		i.item = f.span()
	default:
		i.item = f.metric()
	}
	if err := f.end(s.kind); err != nil {
		return nil, err
	}
	i.head, err = e.head(res, scope)
	return i, err
}

// part returns resource or scope, from the payload or the metadata.
func (f *fields) part(field, key string, m record.Metadata) (map[string]any, error) {
	if o, ok := f.object(field); ok {
		return o, nil
	}
	text := m.Get(key)
	if text == "" {
		return nil, nil
	}
	var d record.Data
	if err := d.UnmarshalJSON([]byte(text)); err != nil {
		return nil, fmt.Errorf("the metadata %s are no object: %w", key, err)
	}
	o, ok := d.Structured()
	if !ok {
		return nil, fmt.Errorf("the metadata %s are no object", key)
	}
	return o, nil
}

// request is a request under construction.
type request struct {
	signal *signal
	data   proto.Message // *logs.LogsData, *metrics.MetricsData or *trace.TracesData
	count  int           // number of records
	size   int           // approximate size in bytes

	// The only record of a request that is sent as it was received.
	body     []byte
	encoding string

	resources map[string]int    // index of a resource, by its encoding
	scopes    map[scopeKey]int  // index of a scope in its resource
	metrics   map[metricKey]int // index of a metric in its scope
	buffer    []byte            // for encoded keys
}

type scopeKey struct {
	resource int
	scope    string
}

type metricKey struct {
	resource, scope int
	metric          string
}

func newRequest(s *signal) *request {
	return &request{signal: s, data: s.newData(), resources: map[string]int{}, scopes: map[scopeKey]int{},
		metrics: map[metricKey]int{}}
}

var deterministic = proto.MarshalOptions{Deterministic: true}

// key returns the encoding of a message, and a further text, for the index of a group.
func (q *request) key(m proto.Message, more string) (string, error) {
	present := byte(0)
	if m.ProtoReflect().IsValid() {
		present = 1
	}
	var err error
	if q.buffer, err = deterministic.MarshalAppend(append(q.buffer[:0], present), m); err != nil {
		return "", err
	}
	q.buffer = append(append(q.buffer, 0), more...)
	return string(q.buffer), nil
}

// indexOf returns the index of a key, and whether it is new.
func indexOf[K comparable](all map[K]int, key K, next int) (int, bool) {
	if i, ok := all[key]; ok {
		return i, false
	}
	all[key] = next
	return next, true
}

// add adds an item of the signal of the request to it.
func (q *request) add(i *item) error {
	q.count++
	q.size += i.size()
	if i.item == nil {
		q.body, q.encoding = i.request, i.encoding
		return nil
	}
	resourceKey, err := q.key(i.head.resource, i.head.resourceURL)
	if err != nil {
		return err
	}
	inScope, err := q.key(i.head.scope, i.head.scopeURL)
	if err != nil {
		return err
	}
	switch data := q.data.(type) {
	case *logs.LogsData:
		r, isNew := indexOf(q.resources, resourceKey, len(data.ResourceLogs))
		if isNew {
			data.ResourceLogs = append(data.ResourceLogs, &logs.ResourceLogs{Resource: i.head.resource,
				SchemaUrl: i.head.resourceURL})
		}
		in := data.ResourceLogs[r]
		s, isNew := indexOf(q.scopes, scopeKey{r, inScope}, len(in.ScopeLogs))
		if isNew {
			in.ScopeLogs = append(in.ScopeLogs, &logs.ScopeLogs{Scope: i.head.scope, SchemaUrl: i.head.scopeURL})
		}
		in.ScopeLogs[s].LogRecords = append(in.ScopeLogs[s].LogRecords, i.item.(*logs.LogRecord))
	case *trace.TracesData:
		r, isNew := indexOf(q.resources, resourceKey, len(data.ResourceSpans))
		if isNew {
			data.ResourceSpans = append(data.ResourceSpans, &trace.ResourceSpans{Resource: i.head.resource,
				SchemaUrl: i.head.resourceURL})
		}
		in := data.ResourceSpans[r]
		s, isNew := indexOf(q.scopes, scopeKey{r, inScope}, len(in.ScopeSpans))
		if isNew {
			in.ScopeSpans = append(in.ScopeSpans, &trace.ScopeSpans{Scope: i.head.scope, SchemaUrl: i.head.scopeURL})
		}
		in.ScopeSpans[s].Spans = append(in.ScopeSpans[s].Spans, i.item.(*trace.Span))
	case *metrics.MetricsData:
		r, isNew := indexOf(q.resources, resourceKey, len(data.ResourceMetrics))
		if isNew {
			data.ResourceMetrics = append(data.ResourceMetrics, &metrics.ResourceMetrics{Resource: i.head.resource,
				SchemaUrl: i.head.resourceURL})
		}
		in := data.ResourceMetrics[r]
		s, isNew := indexOf(q.scopes, scopeKey{r, inScope}, len(in.ScopeMetrics))
		if isNew {
			in.ScopeMetrics = append(in.ScopeMetrics, &metrics.ScopeMetrics{Scope: i.head.scope,
				SchemaUrl: i.head.scopeURL})
		}
		return q.addMetric(r, s, in.ScopeMetrics[s], i.item.(*metrics.Metric))
	}
	return nil
}

// addMetric adds a metric with one data point to a scope, or the data point to a metric that is the same otherwise.
func (q *request) addMetric(r, s int, in *metrics.ScopeMetrics, m *metrics.Metric) error {
	key, err := q.key(withoutPoints(m), "")
	if err != nil {
		return err
	}
	i, isNew := indexOf(q.metrics, metricKey{r, s, key}, len(in.Metrics))
	if isNew {
		in.Metrics = append(in.Metrics, m)
		return nil
	}
	switch to := in.Metrics[i].Data.(type) {
	case *metrics.Metric_Gauge:
		to.Gauge.DataPoints = append(to.Gauge.DataPoints, m.GetGauge().GetDataPoints()...)
	case *metrics.Metric_Sum:
		to.Sum.DataPoints = append(to.Sum.DataPoints, m.GetSum().GetDataPoints()...)
	case *metrics.Metric_Histogram:
		to.Histogram.DataPoints = append(to.Histogram.DataPoints, m.GetHistogram().GetDataPoints()...)
	case *metrics.Metric_ExponentialHistogram:
		to.ExponentialHistogram.DataPoints = append(to.ExponentialHistogram.DataPoints,
			m.GetExponentialHistogram().GetDataPoints()...)
	case *metrics.Metric_Summary:
		to.Summary.DataPoints = append(to.Summary.DataPoints, m.GetSummary().GetDataPoints()...)
	}
	return nil
}

// withoutPoints returns a copy of a metric without its data points.
func withoutPoints(m *metrics.Metric) *metrics.Metric {
	c := &metrics.Metric{Name: m.Name, Description: m.Description, Unit: m.Unit, Metadata: m.Metadata}
	switch data := m.Data.(type) {
	case *metrics.Metric_Gauge:
		c.Data = &metrics.Metric_Gauge{Gauge: &metrics.Gauge{}}
	case *metrics.Metric_Sum:
		c.Data = &metrics.Metric_Sum{Sum: &metrics.Sum{IsMonotonic: data.Sum.IsMonotonic,
			AggregationTemporality: data.Sum.AggregationTemporality}}
	case *metrics.Metric_Histogram:
		c.Data = &metrics.Metric_Histogram{Histogram: &metrics.Histogram{
			AggregationTemporality: data.Histogram.AggregationTemporality}}
	case *metrics.Metric_ExponentialHistogram:
		c.Data = &metrics.Metric_ExponentialHistogram{ExponentialHistogram: &metrics.ExponentialHistogram{
			AggregationTemporality: data.ExponentialHistogram.AggregationTemporality}}
	case *metrics.Metric_Summary:
		c.Data = &metrics.Metric_Summary{Summary: &metrics.Summary{}}
	}
	return c
}

// encode returns the body of the request.
func (q *request) encode(encoding string) ([]byte, error) {
	data := q.data
	switch {
	case q.body != nil && q.encoding == encoding:
		return q.body, nil
	case q.body != nil && q.encoding == encodingJSON:
		if err := unmarshalJSON(q.body, data); err != nil {
			return nil, fmt.Errorf("the payload is no request in JSON: %w", err)
		}
	case q.body != nil && q.encoding == encodingProtobuf:
		if err := proto.Unmarshal(q.body, data); err != nil {
			return nil, fmt.Errorf("the payload is no request in protobuf: %w", err)
		}
	case q.body != nil:
		return nil, fmt.Errorf("the metadata %s is %q instead of protobuf or json", keyEncoding, q.encoding)
	}
	if encoding == encodingJSON {
		return marshalJSON(data)
	}
	return proto.Marshal(data)
}
