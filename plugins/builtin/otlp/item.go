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

// items converts records. It keeps resource and scope of the last one: those of the next are often the same.
type items struct {
	res, scope, types string // metadata that head was made of
	head              head
}

// item converts a record. It returns nil for a record that no otlp source made.
func (t *items) item(r *record.Record) (*item, error) {
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
		return nil, errors.New("the payload is not an object: remove the metadata " + keySignal +
			" to send it as a log")
	}
	e := encoder{}
	if text := r.Metadata.Get(keyTypes); text != "" {
		if err := json.Unmarshal([]byte(text), &e.types); err != nil {
			return nil, fmt.Errorf("the metadata %s are no object of texts: %w", keyTypes, err)
		}
	}
	i := &item{signal: s}
	f := e.fields(payload)
	res, hasResource := f.object("resource")
	scope, hasScope := f.object("scope")
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
	var err error
	if hasResource || hasScope {
		i.head, err = e.head(res, scope)
	} else {
		i.head, err = t.headOf(&e, r.Metadata)
	}
	return i, err
}

// headOf returns resource and scope from the metadata. Both are in the payload, or both are not.
func (t *items) headOf(e *encoder, m record.Metadata) (head, error) {
	texts := [...]string{m.Get(keyResource), m.Get(keyScope), m.Get(keyTypes)}
	if texts == [...]string{t.res, t.scope, t.types} {
		return t.head, nil
	}
	res, err := objectOf(keyResource, texts[0])
	if err != nil {
		return head{}, err
	}
	scope, err := objectOf(keyScope, texts[1])
	if err != nil {
		return head{}, err
	}
	h, err := e.head(res, scope)
	if err == nil {
		t.res, t.scope, t.types, t.head = texts[0], texts[1], texts[2], h
	}
	return h, err
}

// objectOf returns the object in metadata, nil for none.
func objectOf(key, text string) (map[string]any, error) {
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
	scopesOf  []int             // number of scopes of each resource
	scopes    map[scopeKey]int  // index of a scope in its resource
	metrics   map[metricKey]int // index of a metric in its scope
	buffer    []byte            // for encoded keys
	last      place             // of the last item
}

// place is the place of an item in a request.
type place struct {
	head            head
	resource, scope int
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
	if q.count == 1 || i.head != q.last.head {
		if err := q.addHead(&i.head); err != nil {
			return err
		}
	}
	r, s := q.last.resource, q.last.scope
	switch data := q.data.(type) {
	case *logs.LogsData:
		in := data.ResourceLogs[r].ScopeLogs[s]
		in.LogRecords = append(in.LogRecords, i.item.(*logs.LogRecord))
	case *trace.TracesData:
		in := data.ResourceSpans[r].ScopeSpans[s]
		in.Spans = append(in.Spans, i.item.(*trace.Span))
	case *metrics.MetricsData:
		return q.addMetric(r, s, data.ResourceMetrics[r].ScopeMetrics[s], i.item.(*metrics.Metric))
	}
	return nil
}

// addHead adds resource and scope, unless the request has them, and sets last.
func (q *request) addHead(h *head) error {
	resourceKey, err := q.key(h.resource, h.resourceURL)
	if err != nil {
		return err
	}
	inScope, err := q.key(h.scope, h.scopeURL)
	if err != nil {
		return err
	}
	r, newResource := indexOf(q.resources, resourceKey, len(q.resources))
	if newResource {
		q.scopesOf = append(q.scopesOf, 0)
	}
	s, newScope := indexOf(q.scopes, scopeKey{r, inScope}, q.scopesOf[r])
	if newScope {
		q.scopesOf[r]++
	}
	q.last = place{*h, r, s}
	switch data := q.data.(type) {
	case *logs.LogsData:
		if newResource {
			data.ResourceLogs = append(data.ResourceLogs, &logs.ResourceLogs{Resource: h.resource,
				SchemaUrl: h.resourceURL})
		}
		if in := data.ResourceLogs[r]; newScope {
			in.ScopeLogs = append(in.ScopeLogs, &logs.ScopeLogs{Scope: h.scope, SchemaUrl: h.scopeURL})
		}
	case *trace.TracesData:
		if newResource {
			data.ResourceSpans = append(data.ResourceSpans, &trace.ResourceSpans{Resource: h.resource,
				SchemaUrl: h.resourceURL})
		}
		if in := data.ResourceSpans[r]; newScope {
			in.ScopeSpans = append(in.ScopeSpans, &trace.ScopeSpans{Scope: h.scope, SchemaUrl: h.scopeURL})
		}
	case *metrics.MetricsData:
		if newResource {
			data.ResourceMetrics = append(data.ResourceMetrics, &metrics.ResourceMetrics{Resource: h.resource,
				SchemaUrl: h.resourceURL})
		}
		if in := data.ResourceMetrics[r]; newScope {
			in.ScopeMetrics = append(in.ScopeMetrics, &metrics.ScopeMetrics{Scope: h.scope, SchemaUrl: h.scopeURL})
		}
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
