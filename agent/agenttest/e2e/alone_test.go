package e2e_test

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/agent"
	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/parts"
	"github.com/conduit-agent/conduit/agent/reference"
	"github.com/conduit-agent/conduit/spec"
)

// An agent outside a cluster runs no cluster goroutine and makes no cluster allocation while a pipeline runs.
func TestNothingOfAClusterWithoutOne(t *testing.T) {
	cfg := onePipeline(t)
	// Recording the many allocations that compile the schema takes seconds.
	spec.ParseFile("p.yaml", []byte(agenttest.Generated("", "p", 1, "")))
	defer func(rate int) { runtime.MemProfileRate = rate }(runtime.MemProfileRate)
	runtime.MemProfileRate = 1 // records every allocation
	cluster := parts.Cluster()
	before := allocated(t)
	synctest.Test(t, func(t *testing.T) {
		sim := (&world{lives: map[string]*lifetime{}}).boot().simulation()
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- runIn(ctx, agent.Options{Config: cfg, Plugins: parts.Plugins(),
				References: reference.Kinds(), Cluster: cluster,
				Log: slog.New(slog.DiscardHandler)}, sim)
		}()
		time.Sleep(time.Second)
		synctest.Wait()
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		if text := string(stacks); !strings.Contains(text, "/agent/engine") || strings.Contains(text, clusterPackages) {
			t.Errorf("a pipeline runs, and nothing of a cluster does:\n%s", text)
		}
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	engine := false
	for function, bytes := range allocated(t) {
		if bytes == before[function] {
			continue
		}
		engine = engine || strings.Contains(function, "/agent/engine")
		if strings.Contains(function, clusterPackages) {
			t.Errorf("%s allocates %d bytes", function, bytes-before[function])
		}
	}
	if !engine {
		t.Error("the allocations of the engine are not known")
	}
}

// allocated returns the bytes that the profile counts for each function, those of the functions it calls included.
func allocated(t *testing.T) map[string]int64 {
	t.Helper()
	runtime.GC()
	runtime.GC() // the second collection completes the profile of the first
	records := make([]runtime.MemProfileRecord, 100_000)
	n, ok := runtime.MemProfile(records, true)
	if !ok {
		t.Fatalf("%d records of allocations", n)
	}
	bytes := map[string]int64{}
	for _, r := range records[:n] {
		frames := runtime.CallersFrames(r.Stack())
		for more := true; more; {
			var f runtime.Frame
			f, more = frames.Next()
			bytes[f.Function] += r.AllocBytes
		}
	}
	return bytes
}

// clusterPackages matches the function names of the cluster packages.
const clusterPackages = "/agent/cluster"
