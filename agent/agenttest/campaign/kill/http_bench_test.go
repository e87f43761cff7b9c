package kill_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/kill"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

const (
	httpRecords = 1_000_000
	httpBatch   = 100 // records per request
	httpSenders = 800 // concurrent senders
)

var httpLine = `{"id":12345,"text":"` + strings.Repeat("x", 100) + `"}`

// BenchmarkHTTP moves requests of a hundred records with an agent, and with only the standard library on both sides.
func BenchmarkHTTP(b *testing.B) {
	runBenchmarks(b, httpRecords, []benchmark{{"requests-to-handler", benchReceiveBare},
		{"requests-to-file", func(b *testing.B) { benchReceive(b, "") }},
		{"requests-to-lines", func(b *testing.B) {
			benchReceive(b, ", "+payloads)
		}}, {"loop-to-handler", benchSendBare}, {"file-to-handler", benchSend}})
}

// writeLines makes the input file of a benchmark.
func writeLines(b *testing.B, dir string, n int) {
	b.Helper()
	if err := os.WriteFile(dir+"/in", []byte(strings.Repeat(httpLine+"\n", n)), 0o600); err != nil {
		b.Fatal(err)
	}
}

// sometimes returns a function that only occasionally queries a system for completion, because a query takes time from
// the system.
func sometimes(ask func() bool) func() bool {
	last := time.Time{}
	return func() bool {
		if time.Since(last) < 20*time.Millisecond {
			return false
		}
		last = time.Now()
		return ask()
	}
}

// used is the resource usage of the agents, or of bare loops in separate processes, in the running benchmark: their
// total CPU time, and the largest memory of any process.
var used kill.Usage

func use(u kill.Usage) { used = kill.Usage{CPU: used.CPU + u.CPU, Memory: max(used.Memory, u.Memory)} }

// report reports the resource usage of moving n records in each iteration.
func report(b *testing.B, records float64) {
	b.Helper()
	records *= float64(b.N)
	b.ReportMetric(records/b.Elapsed().Seconds(), "records/s")
	if used.CPU > 0 {
		b.ReportMetric(float64(used.CPU.Microseconds())/records, "process-CPU-µs/record")
	}
	if used.Memory > 0 {
		b.ReportMetric(float64(used.Memory)/(1<<20), "MiB-at-most")
	}
	used = kill.Usage{}
}

// benchmark moves a number of records once.
type benchmark struct {
	name string
	run  func(b *testing.B)
}

// runBenchmarks runs benchmarks that move the given number of records each.
func runBenchmarks(b *testing.B, records int, all []benchmark) {
	for _, one := range all {
		b.Run(one.name, func(b *testing.B) {
			for range b.N {
				one.run(b)
			}
			report(b, float64(records))
		})
	}
}

// sink counts the lines of the requests that it answers.
func sink(b *testing.B) (url string, lines *atomic.Int64) {
	b.Helper()
	lines = &atomic.Int64{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			lines.Add(int64(strings.Count(string(body), "\n")))
		}
		w.WriteHeader(http.StatusNoContent)
	})}
	go func() { _ = s.Serve(l) }()
	b.Cleanup(func() { _ = s.Close() })
	return "http://" + l.Addr().String() + "/", lines
}

// requests sends all records with several concurrent senders.
func requests(b *testing.B, url string, senders int) {
	b.Helper()
	if err := sendRequests(url, senders); err != nil {
		b.Error(err)
	}
}

func sendRequests(url string, senders int) error {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: senders}}
	defer client.CloseIdleConnections()
	body := strings.Repeat(httpLine+"\n", httpBatch)
	var left atomic.Int64
	left.Store(httpRecords / httpBatch)
	var all errgroup.Group
	for range senders {
		all.Go(func() error {
			for left.Add(-1) >= 0 {
				resp, err := client.Post(url, "application/x-ndjson", strings.NewReader(body))
				if err != nil {
					return err
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				if _ = resp.Body.Close(); resp.StatusCode != http.StatusNoContent && resp.StatusCode != http.StatusOK {
					return fmt.Errorf("answered %d", resp.StatusCode)
				}
			}
			return nil
		})
	}
	return all.Wait()
}

func benchReceiveBare(b *testing.B) {
	b.StopTimer()
	url, _ := sink(b)
	b.StartTimer()
	requests(b, url, httpSenders)
}

// listens reports whether a server at addr accepts connections.
func listens(addr string) bool {
	c, err := net.Dial("tcp", addr)
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}

func benchReceive(b *testing.B, format string) {
	b.StopTimer()
	dir, addr := agenttest.NewDir(b), fmt.Sprintf("127.0.0.1:%d", network.FreePort(b))
	writePipeline(b, dir, fmt.Sprintf(`version: "2.2"
pipelines:
  - id: bench
    connectors:
      - {id: in, type: source, plugin: builtin:http, settings: {address: "%s"}}
      - {id: out, type: destination, plugin: builtin:file, settings: {path: %s/out%s}}
`, addr, dir, format))
	stop, err := kill.StartAgent(dir)
	if err != nil {
		b.Fatal(err)
	}
	wait.For(b, "the source to listen", func() bool { return listens(addr) })
	b.StartTimer()
	requests(b, "http://"+addr+"/", httpSenders)
	b.StopTimer()
	use(stop())
	if !lines(dir+"/out", httpRecords)() {
		b.Error("records are missing in the file")
	}
}

// benchSendBare sends all records with a bare loop.
func benchSendBare(b *testing.B) {
	b.StopTimer()
	url, lines := sink(b)
	dir := b.TempDir()
	writeLines(b, dir, httpRecords)
	benchLoop(b, loopOf{Name: "http", In: dir + "/in", Addr: url})
	if n := lines.Load(); n != httpRecords {
		b.Errorf("%d records arrived", n)
	}
}

func benchSend(b *testing.B) {
	b.StopTimer()
	dir := agenttest.NewDir(b)
	url, lines := sink(b)
	writeLines(b, dir, httpRecords)
	agentMoves(b, dir, fmt.Sprintf(`version: "2.2"
pipelines:
  - id: bench
    connectors:
      - {id: in, type: source, plugin: builtin:file, settings: {path: %s/in}}
      - {id: out, type: destination, plugin: builtin:http, settings: {url: "%s", body.format: lines,
         sdk.record.format: template,
          sdk.record.format.options: '{{ printf "%%s" .Payload.After }}'}}
`, dir, url), func() bool { return lines.Load() >= httpRecords })
}

func writePipeline(b *testing.B, dir, file string) {
	b.Helper()
	if err := os.WriteFile(filepath.Join(dir, "pipelines", "bench.yaml"), []byte(file), 0o600); err != nil {
		b.Fatal(err)
	}
}

// payloads configures a destination to write the payload alone, as a bare loop does.
const payloads = `sdk.record.format: template, sdk.record.format.options: '{{ printf "%s" .Payload.After }}'`
