package kill_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/kill"
	"github.com/conduit-agent/conduit/plugins/plugintest/server"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

const (
	httpRecords = 500_000
	httpBatch   = 100 // records of a request
	httpSenders = 256 // that send at the same time
)

var httpLine = `{"id":12345,"text":"` + strings.Repeat("x", 100) + `"}`

// BenchmarkHTTP moves requests of a hundred records with an agent, and with nothing but the
// standard library on both sides.
func BenchmarkHTTP(b *testing.B) {
	runBenchmarks(b, httpRecords, []benchmark{{"requests-to-handler", benchReceiveBare}, {"requests-to-file", benchReceive}, {"loop-to-handler", benchSendBare}, {"file-to-handler", benchSend}})
}

// writeLines makes the file in of a benchmark.
func writeLines(b *testing.B, dir string, n int) {
	b.Helper()
	if err := os.WriteFile(dir+"/in", []byte(strings.Repeat(httpLine+"\n", n)), 0o600); err != nil {
		b.Fatal(err)
	}
}

// sometimes returns what asks a system whether all is there only now and then: asking takes time from it.
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

// benchmark moves a number of records once.
type benchmark struct {
	name string
	run  func(b *testing.B)
}

// runBenchmarks runs benchmarks that move so many records each.
func runBenchmarks(b *testing.B, records int, all []benchmark) {
	for _, one := range all {
		b.Run(one.name, func(b *testing.B) {
			for range b.N {
				one.run(b)
			}
			b.ReportMetric(float64(records)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
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

// requests sends all records, by several senders at the same time.
func requests(b *testing.B, url string, senders int) {
	b.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: senders}}
	defer client.CloseIdleConnections()
	body := strings.Repeat(httpLine+"\n", httpBatch)
	var left atomic.Int64
	left.Store(httpRecords / httpBatch)
	var done sync.WaitGroup
	for range senders {
		done.Go(func() {
			for left.Add(-1) >= 0 {
				resp, err := client.Post(url, "application/x-ndjson", strings.NewReader(body))
				if err != nil {
					b.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				if _ = resp.Body.Close(); resp.StatusCode != http.StatusNoContent {
					b.Errorf("answered %d", resp.StatusCode)
				}
			}
		})
	}
	done.Wait()
}

func benchReceiveBare(b *testing.B) {
	b.StopTimer()
	url, _ := sink(b)
	b.StartTimer()
	requests(b, url, httpSenders)
}

func benchReceive(b *testing.B) {
	b.StopTimer()
	dir, addr := agenttest.NewDir(b), fmt.Sprintf("127.0.0.1:%d", server.FreePort(b))
	writePipeline(b, dir, fmt.Sprintf(`version: "2.2"
pipelines:
  - id: bench
    connectors:
      - {id: in, type: source, plugin: builtin:http, settings: {address: "%s"}}
      - {id: out, type: destination, plugin: builtin:file, settings: {path: %s/out}}
`, addr, dir))
	stop, err := kill.StartAgent(dir)
	if err != nil {
		b.Fatal(err)
	}
	wait.For(b, "the source to listen", func() bool {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return false
		}
		_ = c.Close()
		return true
	})
	b.StartTimer()
	requests(b, "http://"+addr+"/", httpSenders)
	b.StopTimer()
	stop()
	if !lines(dir+"/out", httpRecords)() {
		b.Error("records are missing in the file")
	}
}

func benchSendBare(b *testing.B) {
	b.StopTimer()
	url, lines := sink(b)
	b.StartTimer()
	requests(b, url, 1)
	b.StopTimer()
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
      - {id: out, type: destination, plugin: builtin:http, settings: {url: "%s", body.format: lines, sdk.record.format: template,
          sdk.record.format.options: '{{ printf "%%s" .Payload.After }}'}}
`, dir, url), func() bool { return lines.Load() >= httpRecords })
}

func writePipeline(b *testing.B, dir, file string) {
	b.Helper()
	if err := os.WriteFile(filepath.Join(dir, "pipelines", "bench.yaml"), []byte(file), 0o600); err != nil {
		b.Fatal(err)
	}
}
