package otlp

import (
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Metadata of the records of a source.
const (
	keySignal   = "otlp.signal"        // logs, metrics or traces
	keyResource = "otlp.resource"      // JSON object, unless it is in the payload
	keyScope    = "otlp.scope"         // JSON object, unless it is in the payload
	keyTypes    = "otlp.types"         // JSON object: types of values that JSON does not tell apart, by JSON pointer
	keyEncoding = "otlp.encoding"      // of a whole request: protobuf or json
	keyRemote   = "otlp.remoteAddress" // of the sender
)

// Values of keyEncoding.
const (
	encodingProtobuf = "protobuf"
	encodingJSON     = "json"
)

// signal is one of the three kinds of telemetry. A request has the same encoding as the message of newData, which
// consists of the same fields.
type signal struct {
	name     string // value of keySignal
	path     string // over HTTP
	method   string // over gRPC
	kind     string // name of a record, for errors
	item     string // plural of kind
	rejected string // field of a partial success in JSON
	newData  func() proto.Message
}

var signals = []*signal{logsSignal, metricsSignal, tracesSignal}

var logsSignal = &signal{"logs", "/v1/logs", "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
	"a log record", "log records", "rejectedLogRecords", func() proto.Message { return &logs.LogsData{} }}

var metricsSignal = &signal{"metrics", "/v1/metrics", "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
	"a data point", "data points", "rejectedDataPoints", func() proto.Message { return &metrics.MetricsData{} }}

var tracesSignal = &signal{"traces", "/v1/traces", "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
	"a span", "spans", "rejectedSpans", func() proto.Message { return &trace.TracesData{} }}

// signalOf returns the signal with this name, nil if there is none.
func signalOf(name string) *signal {
	for _, s := range signals {
		if s.name == name {
			return s
		}
	}
	return nil
}
