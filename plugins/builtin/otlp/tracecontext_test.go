package otlp_test

import (
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/otlp"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/record"
)

// The trace context of a request travels in its headers, over gRPC and HTTP.
func TestTraceContextOfRequests(t *testing.T) {
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	other := strings.Replace(parent, "4bf9", "0000", 1)
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		for contexts, want := range map[string]string{parent + " " + parent: parent, parent + " " + other: "",
			parent + " -": ""} {
			s, addr := listening(t)
			d := destination(t, map[string]string{"url": "http://" + addr, "protocol": protocol})
			all := plain("one", "two")
			for i, c := range strings.Fields(contexts) {
				all[i].Metadata.SetTraceContext(c, "a=1")
			}
			written := make(chan error, 1)
			go func() {
				_, err := d.Write(t.Context(), all)
				written <- err
			}()
			got := plugintest.Read(t, s, 2)
			for _, r := range got {
				p, state := r.Metadata.TraceContext()
				if p != want || (state == "a=1") != (want != "") || r.Metadata.Get(otlp.KeySignal) != "logs" {
					t.Errorf("%s: %q becomes %q and %q", protocol, contexts, p, state)
				}
				if want == "" && r.Metadata.Get(record.KeyTraceState) != "" {
					t.Errorf("%s: %q becomes %v", protocol, contexts, r.Metadata)
				}
			}
			ack(t, s, got)
			if err := <-written; err != nil {
				t.Error(err)
			}
		}
	}
}
