package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/spec"
)

// waitForever makes the agent wait without a limit for everything that delays its end.
func waitForever(c *config.Config) { c.Shutdown.Timeout = time.Hour }

// An inspector sees the records before and after a restart of the pipeline, and the records of each version. It
// ends soon after the agent does.
func TestInspectorOutlivesThePipeline(t *testing.T) {
	t.Parallel()
	w := startWeb(t, "", waitForever)
	w.Save("p.yaml", agenttest.Generated(w.Dir, "p", 200, ""))
	w.WaitPhase("p", spec.PhaseRunning, 1)
	var seen atomic.Int64
	ended := make(chan error, 1)
	go func() {
		last := 0
		ended <- w.API.Inspect(t.Context(), "p:src", nil, func(m client.Message) error {
			if m.Result == nil {
				return fmt.Errorf("%d records were left out", m.Dropped)
			}
			var r inspected
			if err := json.Unmarshal(m.Result, &r); err != nil {
				return err
			}
			var n int
			if _, err := fmt.Sscan(string(r.Position), &n); err != nil || last > 0 && n != last+1 {
				return fmt.Errorf("record %d follows %d: %v", n, last, err)
			}
			last = n
			seen.Add(1)
			return nil
		})
	}()
	more := func(what string) {
		t.Helper()
		before := seen.Load()
		w.Wait("more records "+what, func() bool { return seen.Load() > before+3 || len(ended) > 0 })
	}
	more("at first")
	w.Must("POST", "/v1/pipelines/p/restart", "", nil)
	more("after a restart")
	w.Must("POST", "/v1/pipelines/p/stop", "", nil)
	w.Must("POST", "/v1/pipelines/p/start", "", nil)
	more("after a stop and a start")
	w.Save("p.yaml", agenttest.Generated(w.Dir, "p", 300, ""))
	w.WaitPhase("p", spec.PhaseRunning, 2)
	more("of a new version")
	w.Stop()
	if err := <-ended; err != io.EOF {
		t.Errorf("the session ended with %v", err)
	}
}

// Sessions of clients that do not read do not delay the end of the agent.
func TestInspectorsEndWithTheAgent(t *testing.T) {
	t.Parallel()
	w := startWeb(t, "", waitForever)
	w.Save("p.yaml", agenttest.Generated(w.Dir, "p", 1000, ""))
	w.WaitPhase("p", spec.PhaseRunning, 1)
	var ended sync.WaitGroup
	var up atomic.Int64
	for range 20 {
		ended.Go(func() {
			first := true
			err := w.API.Inspect(context.Background(), "p:dst", nil, func(client.Message) error {
				if first {
					up.Add(1)
				}
				first = false
				return nil
			})
			if !errors.Is(err, io.EOF) {
				t.Errorf("a session ended with %v", err)
			}
		})
	}
	w.Wait("the sessions to see records", func() bool { return up.Load() == 20 })
	w.Stop()
	ended.Wait()
}

// The metrics count the open sessions and the records that each session missed.
func TestMetricsOfInspectors(t *testing.T) {
	t.Parallel()
	w := startWeb(t, "")
	w.Save("p.yaml", agenttest.Generated(w.Dir, "p", 0, ""))
	w.WaitPhase("p", spec.PhaseRunning, 1)
	const sessions, dropped = `conduit_inspector_sessions{component_id="p:dst"}`,
		`conduit_inspector_dropped_records_total{component_id="p:dst"}`
	ctx, leave := context.WithCancel(t.Context())
	var reported atomic.Uint64
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			_ = w.API.Inspect(ctx, "p:dst", nil, func(m client.Message) error { reported.Add(m.Dropped); return nil })
		})
	}
	w.Wait("three sessions that received counts of drops", func() bool {
		return strings.Contains(agenttest.MetricsOf(w.Agent), sessions+" 3\n") && reported.Load() > 0
	})
	if n := agenttest.Scrape(t, w.Agent, dropped); n < float64(reported.Load()) {
		t.Errorf("%v records left out, and %d reported", n, reported.Load())
	}
	leave()
	all.Wait()
	w.Wait("no session", func() bool { return !strings.Contains(agenttest.MetricsOf(w.Agent), sessions) })
	if before := agenttest.Scrape(t, w.Agent, dropped); before == 0 || agenttest.Scrape(t, w.Agent, dropped) != before {
		t.Errorf("%v records left out, and more afterwards", before)
	}
}

// BenchmarkInspectors measures how many records per second a pipeline at full speed writes to its output while b.N
// sessions of another process inspect it.
func BenchmarkInspectors(b *testing.B) {
	for _, c := range []struct {
		sessions int
		filter   string
	}{{0, ""}, {1, ""}, {1000, ""}, {1000, "operation=create"}, {1000, "metadata.conduit.source.connector.id=p:src"}} {
		b.Run(fmt.Sprintf("sessions=%d/filter=%s", c.sessions, c.filter), func(b *testing.B) {
			a := agenttest.Start(b, "", quietly)
			out := filepath.Join(a.Dir, "p.jsonl")
			a.Save("p.yaml", agenttest.Generated(a.Dir, "p", 0, ""))
			a.Wait("the first records", func() bool { return agenttest.FileSize(out) > 1<<20 })
			inspectAll(b, a.Address(), c.sessions, c.filter)
			var heap uint64
			from, used := agenttest.FileSize(out), cpuTime(b)
			b.ResetTimer()
			seconds := time.NewTicker(time.Second)
			defer seconds.Stop()
			for range b.N {
				<-seconds.C
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				heap = max(heap, m.HeapInuse)
			}
			b.StopTimer()
			used = cpuTime(b) - used
			records := float64(lines(b, out, from, agenttest.FileSize(out)))
			b.ReportMetric(records/b.Elapsed().Seconds(), "records/s")
			b.ReportMetric(float64(used.Nanoseconds())/records, "ns-cpu/record") // less noisy than the rate
			b.ReportMetric(float64(heap)/(1<<20), "MiB-heap")
		})
	}
}

// cpuTime returns the CPU time of this process, which contains the agent.
func cpuTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	check(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// lines counts the lines between two offsets of a file.
func lines(b *testing.B, path string, from, to int64) (n int) {
	f, err := os.Open(path)
	check(b, err)
	defer f.Close()
	buf, section := make([]byte, 1<<20), io.NewSectionReader(f, from, to-from)
	for {
		read, err := section.Read(buf)
		n += bytes.Count(buf[:read], []byte{'\n'})
		if err == io.EOF {
			return n
		}
		check(b, err)
	}
}

// onlookers, when set to an address, makes the test binary inspect p:dst of the agent at that address until its input
// ends. The first argument is the number of sessions, the second the filter.
const onlookers = "CONDUIT_TEST_ONLOOKERS"

func inspectAll(b *testing.B, address string, sessions int, filter string) {
	b.Helper()
	if sessions == 0 {
		return
	}
	cmd := exec.Command(os.Args[0], strconv.Itoa(sessions), filter)
	cmd.Env, cmd.Stderr = append(os.Environ(), onlookers+"="+address), os.Stderr
	input, err := cmd.StdinPipe()
	check(b, err)
	output, err := cmd.StdoutPipe()
	check(b, err)
	check(b, cmd.Start())
	b.Cleanup(func() { input.Close(); _ = cmd.Wait() })               // the agent may have ended its sessions
	late := time.AfterFunc(20*time.Second, func() { output.Close() }) // the pipeline fills the disk meanwhile
	defer late.Stop()
	if _, err := bufio.NewReader(output).ReadString('\n'); err != nil {
		b.Fatalf("the onlookers did not come: %v", err)
	}
}

// watchRecords runs the sessions of the onlookers.
func watchRecords(address, sessions, filter string) int {
	n, err := strconv.Atoi(sessions)
	if err != nil {
		panic(err)
	}
	c := &client.Client{URL: "http://" + address}
	var filters []string
	if filter != "" {
		filters = []string{filter}
	}
	var seeing sync.WaitGroup
	for range n {
		seeing.Add(1)
		go func() {
			var once sync.Once
			_ = c.Inspect(context.Background(), "p:dst", filters, func(client.Message) error {
				once.Do(seeing.Done)
				return nil
			})
		}()
	}
	seeing.Wait()
	fmt.Println("all see")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}
