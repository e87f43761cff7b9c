package otlp

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
)

// OTLP/JSON is the JSON mapping of protobuf, with the difference that trace and span ids are hexadecimal digits instead
// of base64.

var jsonDecoding = protojson.UnmarshalOptions{DiscardUnknown: true, RecursionLimit: maxNesting}

var jsonEncoding = protojson.MarshalOptions{UseEnumNumbers: true}

// unmarshalJSON decodes a request in OTLP/JSON.
func unmarshalJSON(b []byte, into proto.Message) error {
	if err := jsonDecoding.Unmarshal(b, into); err != nil {
		return err
	}
	return eachID(into, fromHex)
}

// marshalJSON encodes a request in OTLP/JSON. It changes the ids of the message.
func marshalJSON(m proto.Message) ([]byte, error) {
	if err := eachID(m, toHex); err != nil {
		return nil, err
	}
	return jsonEncoding.Marshal(m)
}

// fromHex decodes an id whose digits were decoded as base64, which has all hexadecimal digits in its alphabet.
func fromHex(id []byte) ([]byte, error) {
	digits := base64.RawStdEncoding.EncodeToString(id)
	decoded, err := hex.DecodeString(digits)
	if err != nil {
		return nil, fmt.Errorf("the id %q is not hexadecimal", digits)
	}
	return decoded, nil
}

// toHex is the inverse of fromHex. Ids have an even number of digits, so the length in base64 must be a multiple of
// four: base64 of other lengths has unused bits.
func toHex(id []byte) ([]byte, error) {
	digits, err := base64.RawStdEncoding.DecodeString(hex.EncodeToString(id))
	if err != nil || len(digits)%3 != 0 {
		return nil, errors.New("an id does not have a multiple of two bytes")
	}
	return digits, nil
}

// eachID replaces the trace and span ids of a request.
func eachID(m proto.Message, replace func([]byte) ([]byte, error)) error {
	var failed error
	on := func(ids ...*[]byte) {
		for _, id := range ids {
			if len(*id) == 0 || failed != nil {
				continue
			}
			*id, failed = replace(*id)
		}
	}
	switch m := m.(type) {
	case *logs.LogsData:
		for _, r := range m.GetResourceLogs() {
			for _, s := range r.GetScopeLogs() {
				for _, l := range s.GetLogRecords() {
					on(&l.TraceId, &l.SpanId)
				}
			}
		}
	case *trace.TracesData:
		for _, r := range m.GetResourceSpans() {
			for _, s := range r.GetScopeSpans() {
				for _, span := range s.GetSpans() {
					on(&span.TraceId, &span.SpanId, &span.ParentSpanId)
					for _, l := range span.GetLinks() {
						on(&l.TraceId, &l.SpanId)
					}
				}
			}
		}
	case *metrics.MetricsData:
		eachExemplar(m, func(e *metrics.Exemplar) { on(&e.TraceId, &e.SpanId) })
	}
	return failed
}

func eachExemplar(m *metrics.MetricsData, do func(*metrics.Exemplar)) {
	for _, r := range m.GetResourceMetrics() {
		for _, s := range r.GetScopeMetrics() {
			for _, one := range s.GetMetrics() {
				for _, p := range pointsOf(one) {
					if measured, ok := p.(interface{ GetExemplars() []*metrics.Exemplar }); ok {
						for _, e := range measured.GetExemplars() {
							do(e)
						}
					}
				}
			}
		}
	}
}

// pointsOf returns the data points of a metric.
func pointsOf(m *metrics.Metric) []point {
	switch data := m.GetData().(type) {
	case *metrics.Metric_Gauge:
		return points(data.Gauge.GetDataPoints())
	case *metrics.Metric_Sum:
		return points(data.Sum.GetDataPoints())
	case *metrics.Metric_Histogram:
		return points(data.Histogram.GetDataPoints())
	case *metrics.Metric_ExponentialHistogram:
		return points(data.ExponentialHistogram.GetDataPoints())
	case *metrics.Metric_Summary:
		return points(data.Summary.GetDataPoints())
	}
	return nil
}

func points[P point](all []P) []point {
	made := make([]point, len(all))
	for i, p := range all {
		made[i] = p
	}
	return made
}
