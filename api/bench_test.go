package api_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/conduit-agent/conduit/api"
	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// BenchmarkPass measures the cost of inspection to a pipeline per record, in batches of 1000.
func BenchmarkPass(b *testing.B) {
	filters := map[string]func(i int) []string{
		"none": func(int) []string { return nil },
		"same": func(int) []string { return []string{"metadata.n=none"} },
		"own":  func(i int) []string { return []string{fmt.Sprintf("metadata.n=%d", -i)} },
	}
	for _, c := range []struct {
		sessions int
		filter   string
	}{{1, "none"}, {1000, "none"}, {1, "same"}, {1000, "same"}, {1000, "own"}} {
		b.Run(fmt.Sprintf("sessions=%d/filter=%s", c.sessions, c.filter), func(b *testing.B) {
			w := newWorld(b)
			w.fromFile("a.yaml", pipelineOf("a", spec.StatusRunning))
			s := newServer(w)
			h := inspected(b, w, s, c.sessions, filters[c.filter])
			batch := make([]record.Record, 1000)
			for i := range batch {
				batch[i] = rec(i)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for b.Loop() {
				h(record.NewBatch(batch))
			}
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/record")
			b.ReportMetric(float64(after.HeapInuse)/(1<<20), "MiB-heap")
		})
	}
}

// inspected opens sessions on a connector and returns the function that its pipeline calls.
func inspected(b *testing.B, w *world, s *api.Server, sessions int, filters func(i int) []string) func(*record.Batch) {
	c, _ := serve(b, s)
	for i := range sessions {
		go c.Inspect(b.Context(), "a:gen", filters(i), func(client.Message) error { return nil })
	}
	wait.For(b, "all sessions", func() bool { return s.Stats().Sessions["a:gen"] == sessions })
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.observers["a:gen"] {
		return f
	}
	return nil
}
