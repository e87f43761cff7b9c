package natskv_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/cluster/natskv"
	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// counting counts the requests of members to the store.
type counting struct {
	cluster.Store
	writes, reads *atomic.Int64
}

func (c counting) Write(ctx context.Context, w protocol.Write) protocol.Outcome {
	c.writes.Add(1)
	return c.Store.Write(ctx, w)
}

func (c counting) Read(ctx context.Context, key string) (protocol.Entry, error) {
	c.reads.Add(1)
	return c.Store.Read(ctx, key)
}

// scale is a cluster of members that run nothing.
type scale struct {
	t             *testing.T
	members       []*cluster.Member
	writes, reads atomic.Int64
}

// Sizes of TestScale.
var (
	pipelines = flag.Int("pipelines", 50, "pipelines that the members share")
	replicas  = flag.Int("servers", 1, "servers of NATS")
	rest      = flag.Duration("rest", 5*time.Second, "time in which writes are counted while nothing happens")
)

// TestScale lets five members share pipelines, and logs the time, the memory, the reads and the writes of each step.
// The number of idle writes must not grow with the number of pipelines.
func TestScale(t *testing.T) {
	load.Parallel(t, *replicas*load.Server+load.Agent)
	servers := server.StartNATS(t, *replicas)
	s := &scale{t: t}
	for i := range 5 {
		s.join(fmt.Sprint("m", i), natskv.Options{URL: urls(servers), Cluster: "test", Replicas: *replicas})
	}
	wait.For(t, "all to be members", func() bool { return s.members[0].Stats(t.Context()).Members == len(s.members) })
	wanted := map[string]protocol.Declaration{}
	for i := range *pipelines {
		wanted[fmt.Sprint("pipeline-", i)] = protocol.Declaration{Digest: "d"}
	}
	s.measure("claimed", func() {
		for _, m := range s.members {
			m.Declare(t.Context(), protocol.Declared{Run: wanted})
		}
		wait.For(t, "all to be claimed", func() bool { return s.owned() == *pipelines },
			func() string { return fmt.Sprint(s.owned()) })
	})
	begin := time.Now()
	idle := s.measure(fmt.Sprintf("idle for %v", *rest), func() {
		wait.For(t, "a while to go by", func() bool { return time.Since(begin) > *rest })
	})
	// A session is renewed every 4 s; two pipelines are handed over.
	if most := int64(len(s.members) * (int(time.Since(begin)/(4*time.Second)) + 2 + 6)); idle > most {
		t.Errorf("%d writes in %v in which nothing happened, want %d at most", idle, time.Since(begin), most)
	}
	s.measure("a checkpoint of each", func() { s.save(wanted) })
	for id := range wanted {
		owners := 0
		for _, m := range s.members {
			if m.RunsHere(id) {
				owners++
			}
		}
		if owners != 1 {
			t.Errorf("%d members run %s", owners, id)
		}
	}
}

func (s *scale) join(name string, o natskv.Options) {
	m := &cluster.Member{
		Store: counting{open(s.t, o), &s.writes, &s.reads}, Self: protocol.Session{Agent: name},
		Timing: protocol.TimingOf(20 * time.Second),
		Log:    slog.New(slog.DiscardHandler),
		Adopt:  func(context.Context, string, []byte) error { return nil },
		Placed: func(string) {}, Lost: func(string) {},
		Idle: func(context.Context, string) bool { return true },
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = m.Run(ctx) }()
	s.t.Cleanup(func() { cancel(); <-ended })
	s.members = append(s.members, m)
}

func (s *scale) owned() (n int) {
	for _, m := range s.members {
		n += m.Stats(s.t.Context()).Pipelines
	}
	return n
}

// save saves a position of 100 bytes for each pipeline.
func (s *scale) save(wanted map[string]protocol.Declaration) {
	var saving sync.WaitGroup
	var failed atomic.Int64
	for id := range wanted {
		for _, m := range s.members {
			if epoch, ok := m.Epoch(id); ok {
				saving.Add(1)
				m.Save(id, epoch, make([]byte, 100), func(ok bool) {
					if !ok {
						failed.Add(1)
					}
					saving.Done()
				})
			}
		}
	}
	saving.Wait()
	if n := failed.Load(); n > 0 {
		s.t.Errorf("%d positions were not saved", n)
	}
}

// measure logs the resources that f takes of the five members, which are in this process, and returns their number of
// writes.
func (s *scale) measure(what string, f func()) int64 {
	writes, reads, cpu, begin := s.writes.Load(), s.reads.Load(), cpuTime(), time.Now()
	f()
	took, cpu := time.Since(begin), cpuTime()-cpu
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	writes, reads = s.writes.Load()-writes, s.reads.Load()-reads
	s.t.Logf("%s: %v, %v of CPU time, %d writes, %d reads, %d KB of heap", what, took.Round(time.Millisecond),
		cpu.Round(time.Millisecond), writes, reads, memory.HeapAlloc/1024)
	return writes
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
