package http_test

import (
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/record"
)

const (
	traceParent  = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	traceParent2 = "00-4bf92f3577b34da6a3ce929d0e0e4736-1111111111111111-01"
)

func TestTraceContextOfReceivedRequests(t *testing.T) {
	s, addr := listening(t, map[string]string{})
	answers := post(t, addr, "one\ntwo", "Content-Type", "application/x-ndjson", "Traceparent", traceParent,
		"Tracestate", "a=1", "Tracestate", "b=2")
	records := plugintest.Read(t, s, 2)
	for _, r := range records {
		if parent, state := r.Metadata.TraceContext(); parent != traceParent || state != "a=1,b=2" {
			t.Errorf("the metadata are %v", r.Metadata)
		}
	}
	ack(t, s, records)
	<-answers
	answers = post(t, addr, "three", "Traceparent", "x", "Tracestate", "a=1")
	records = plugintest.Read(t, s, 1)
	if m := records[0].Metadata; m.Get(record.KeyTraceParent) != "" || m.Get(record.KeyTraceState) != "" {
		t.Errorf("an invalid context becomes %v", m)
	}
	ack(t, s, records)
	<-answers
}

func TestTraceContextOfSentRequests(t *testing.T) {
	for _, tt := range []struct{ body, contexts, want string }{
		{"single", traceParent + " " + traceParent2 + " -", traceParent + " " + traceParent2 + " -"},
		{"lines", traceParent + " " + traceParent, traceParent},
		{"lines", traceParent + " " + traceParent2, "-"},
		{"lines", traceParent + " -", "-"},
	} {
		server := newRecorder(t, nil)
		d := destination(t, payloadOnly(map[string]string{"url": server.URL, "body.format": tt.body}))
		contexts := strings.Fields(tt.contexts)
		all := records(strings.Split("1 2 3"[:2*len(contexts)-1], " ")...)
		for i, c := range contexts {
			all[i].Metadata.SetTraceContext(c, "a=1")
		}
		if n, err := d.Write(t.Context(), all); n != len(all) || err != nil {
			t.Errorf("wrote %d: %v", n, err)
		}
		var got []string
		server.mu.Lock()
		for _, r := range server.got {
			parent, state := r.header.Get("traceparent"), r.header.Get("tracestate")
			if (parent == "") != (state == "") {
				t.Errorf("sent %q and %q", parent, state)
			}
			if parent == "" {
				parent = "-"
			}
			got = append(got, parent)
		}
		server.mu.Unlock()
		if text := strings.Join(got, " "); text != tt.want {
			t.Errorf("%s: sent %q, want %q", tt.body, text, tt.want)
		}
	}
}
