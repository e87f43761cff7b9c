package nats_test

import (
	"fmt"
	"testing"

	client "github.com/nats-io/nats.go"

	"github.com/conduit-agent/conduit/plugins/builtin/nats"
)

const traceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestTraceContextOfMessages(t *testing.T) {
	for _, header := range []map[string][]string{
		{"traceparent": {traceParent}, "tracestate": {"a=1", "b=2"}},
		{"Traceparent": {traceParent}, "Tracestate": {"a=1,b=2"}},
	} {
		if parent, state := nats.MetadataOf(header).TraceContext(); parent != traceParent || state != "a=1,b=2" {
			t.Errorf("%v becomes %q and %q", header, parent, state)
		}
	}
	if m := nats.MetadataOf(map[string][]string{"traceparent": {"x"}}); len(m) != 2 {
		t.Errorf("an invalid context becomes %v", m)
	}
	m := &client.Msg{Header: client.Header{"Traceparent": {"old"}, "tracestate": {"old"}, "x": {"y"}}}
	nats.SetTraceContext(m, traceParent, "")
	if got := fmt.Sprint(m.Header); got != "map[traceparent:["+traceParent+"] x:[y]]" {
		t.Errorf("the headers are %s", got)
	}
	m = &client.Msg{}
	nats.SetTraceContext(m, traceParent, "a=1")
	if got := fmt.Sprint(m.Header); got != "map[traceparent:["+traceParent+"] tracestate:[a=1]]" {
		t.Errorf("the headers are %s", got)
	}
}
