package rabbitmq_test

import (
	"math"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/conduit-agent/conduit/plugins/builtin/rabbitmq"
	"github.com/conduit-agent/conduit/plugins/record"
)

// TestMetadata converts the properties and headers of messages.
func TestMetadata(t *testing.T) {
	t.Parallel()
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	r := rabbitmq.RecordOf("q", &amqp.Delivery{Exchange: "e", RoutingKey: "k", Priority: 3, DeliveryMode: amqp.Persistent,
		Redelivered: true, Timestamp: time.Unix(1, 0), ContentType: "\xff", Headers: amqp.Table{
			"nil": nil, "text": "\xff", "bytes": []byte("b"), "time": time.Unix(0, 0), "number": int32(-1),
			"list": []any{amqp.Table{"a": true}}, "no JSON": []any{math.NaN()}, "x-stream-offset": int64(7),
			"traceparent": parent, "tracestate": int8(1)}})
	for name, want := range map[string]string{
		record.KeyCollection: "q", record.KeyCreatedAt: "1000000000", record.KeyTraceParent: parent,
		"rabbitmq.exchange": "e", "rabbitmq.routingKey": "k", "rabbitmq.priority": "3", "rabbitmq.persistent": "true",
		"rabbitmq.redelivered": "true", "rabbitmq.contentType": `\xff`, "rabbitmq.header.nil": "",
		"rabbitmq.header.text": `\xff`, "rabbitmq.header.bytes": "b", "rabbitmq.header.time": "1970-01-01T00:00:00Z",
		"rabbitmq.header.number": "-1", "rabbitmq.header.list": `[{"a":true}]`, "rabbitmq.header.no JSON": "[NaN]",
		"rabbitmq.header.x-stream-offset": "", record.KeyTraceState: "",
	} {
		if got := r.Metadata.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if r := rabbitmq.RecordOf("q", &amqp.Delivery{Headers: amqp.Table{"traceparent": "x"}}); r.Metadata.Get(
		record.KeyTraceParent) != "" {
		t.Errorf("an invalid trace context becomes %v", r.Metadata)
	}
}
