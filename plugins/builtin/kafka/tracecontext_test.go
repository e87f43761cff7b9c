package kafka_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/conduit-agent/conduit/plugins/builtin/kafka"
	"github.com/conduit-agent/conduit/plugins/record"
)

const traceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestTraceContextOfMessages(t *testing.T) {
	header := func(name, value string) kgo.RecordHeader { return kgo.RecordHeader{Key: name, Value: []byte(value)} }
	m := kafka.MetadataOf(&kgo.Record{Headers: []kgo.RecordHeader{header("tracestate", "a=1"), header("x", "y"),
		header("traceparent", traceParent)}})
	if parent, state := m.TraceContext(); parent != traceParent || state != "a=1" || m.Get("kafka.header.x") != "y" ||
		!slices.IsSortedFunc(m, func(a, b record.Field) int { return strings.Compare(a.Key, b.Key) }) {
		t.Errorf("the metadata of a message are %v", m)
	}
	if m := kafka.MetadataOf(&kgo.Record{Headers: []kgo.RecordHeader{header("traceparent", "x")}}); len(m) != 7 {
		t.Errorf("an invalid context becomes %v", m)
	}
	if m := kafka.MetadataOf(&kgo.Record{}); len(m) != 6 {
		t.Errorf("without a context, the metadata are %v", m)
	}
	later := "00-4bf92f3577b34da6a3ce929d0e0e4736-1111111111111111-01"
	m.Set(record.KeyTraceParent, later)
	m.Delete(record.KeyTraceState)
	for mapped, want := range map[bool]string{false: "traceparent=" + later, true: "x=y traceparent=" + later} {
		text := ""
		for i, h := range kafka.HeadersOf(m, mapped) {
			text += map[bool]string{true: " "}[i > 0] + fmt.Sprintf("%s=%s", h.Key, h.Value)
		}
		if text != want {
			t.Errorf("the headers are %q, want %q", text, want)
		}
	}
	if all := kafka.HeadersOf(record.NewMetadata(map[string]string{"kafka.header.x": "y"}), false); all != nil {
		t.Errorf("without a context, the headers are %v", all)
	}
}
