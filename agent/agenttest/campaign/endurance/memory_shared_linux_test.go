//go:build !race

package endurance_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/process"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// Users of the memory limit in TestMemoryIsShared.
const (
	sharedLimit   = 512 << 20
	onlookersEach = 4  // clients that inspect a pipeline with records of 16 MiB
	hybrids       = 40 // hybrid spools, each with a reader whose destination accepts nothing
	hybridRecords = 64 // in each, after a small first one
	hybridRecord  = 16 << 10
)

// Outstanding records, inspectors, hybrid spools and dead letters share the memory limit: with all of them at once,
// large records and a dead sink, the agent stays within the limit and loses nothing. Inspectors drop records and count
// them, spools spill to the disk, sources wait, and requests that exceed the limit are refused.
func TestMemoryIsShared(t *testing.T) {
	dir, s := t.TempDir(), newSink(t)
	greats, shown := *sharers, 3**sharers // requests for a dead letter of 16 MiB at the same time
	process.WritePipelines(t, dir, sharedPipelines(dir, s.URL, greats))
	address := filepath.Join(dir, "address")
	p := process.Start(t, dir, process.MemoryLimit+"="+strconv.Itoa(sharedLimit), process.AddressFile+"="+address)
	t.Cleanup(p.Kill)
	await := func(what string, done func() bool) {
		t.Helper()
		wait.For(t, what, done, func() string {
			return metric(address, "conduit_memory") + metric(address, "conduit_inspector")
		}, p.Log.String)
	}
	await("the API", func() bool { return metric(address, "conduit_pipeline_status") != "" })
	for i := range greats {
		for range onlookersEach {
			inspectNothing(t, address, fmt.Sprintf("great%d:src", i))
		}
	}
	small := filepath.Join(dir, "small.log")
	addLines(t, small, []byte("a\n")) // the sink accepts these, so that the readers keep up
	await("readers that keep up", func() bool { return s.took(1) })
	t.Logf("small records: peak %d MiB", peak(t, p)>>20)
	line := append(bytes.Repeat([]byte{'x'}, greatRecord-1), '\n')
	addLines(t, filepath.Join(dir, "refused.log"), line)
	await("a dead letter", func() bool { return value(address, `conduit_dead_letters{`) == 1 })
	t.Logf("refused: peak %d MiB", peak(t, p)>>20)
	addLines(t, filepath.Join(dir, "great.log"), bytes.Repeat(line, 2))
	await("sources that wait, and records that inspectors do not get to see", func() bool {
		return value(address, "conduit_memory_waiting_sources") > 0 &&
			value(address, "conduit_inspector_dropped_records_total") > 0
	})
	addLines(t, small, bytes.Repeat(append(bytes.Repeat([]byte{'y'}, hybridRecord-1), '\n'), hybridRecords))
	await("spools that hold all records, on the disk but for what there is memory for", func() bool {
		return value(address, "conduit_spool_records") >= hybrids*hybridRecords
	})
	if written := value(address, "conduit_spool_written_bytes_total"); written < hybrids*hybridRecords*hybridRecord/2 {
		t.Errorf("%d bytes of the spools are on the disk", int(written))
	}
	t.Logf("before dead letters are shown: peak %d MiB", peak(t, p)>>20)
	showDeadLetters(t, address, shown)
	t.Logf("sink dead: peak %d MiB, %s", peak(t, p)>>20, metric(address, "conduit_memory"))
	close(s.alive)
	await("all records", func() bool { return s.complete(greats) })
	t.Logf("delivered: peak %d MiB", peak(t, p)>>20)
	if got := peak(t, p); got > sharedLimit {
		t.Errorf("the agent took %d MiB, the limit is %d MiB", got>>20, sharedLimit>>20)
	}
	p.Terminate(t)
}

// complete reports whether everything has arrived.
func (s *sink) complete(greats int) bool {
	for i := range greats {
		if s.arrivedBytes(fmt.Sprintf("/great%d", i)) < 2*(greatRecord-1) {
			return false
		}
	}
	return s.took(hybridRecords * (hybridRecord - 1))
}

// arrivedBytes returns how many bytes of a pipeline have arrived.
func (s *sink) arrivedBytes(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.arrived[path]
}

// took reports whether the given number of bytes of each spool has arrived.
func (s *sink) took(n int) bool {
	for i := range hybrids {
		if s.arrivedBytes(fmt.Sprintf("/spool%d", i)) < n {
			return false
		}
	}
	return true
}

// addLines appends lines to a file.
func addLines(t *testing.T, path string, lines []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(lines); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func sharedPipelines(dir, sink string, greats int) string {
	var text strings.Builder
	text.WriteString("version: \"2.2\"\npipelines:\n")
	add := func(id, source, destination string) {
		fmt.Fprintf(&text, "  - id: %s\n    connectors:\n      - {id: src, type: source, %s}\n      - {id: dst, "+
			"type: destination, %s}\n", id, source, destination)
	}
	http := func(id string) string {
		return fmt.Sprintf("plugin: \"builtin:http\", settings: {url: %s/%s, timeout: 1h}", sink, id)
	}
	great := fmt.Sprintf("plugin: \"builtin:file\", settings: {path: %s}", filepath.Join(dir, "great.log"))
	for i := range greats {
		add(fmt.Sprintf("great%d", i), great, http(fmt.Sprintf("great%d", i)))
	}
	for i := range hybrids {
		spool := filepath.Join(dir, fmt.Sprintf("spool%d", i))
		add(fmt.Sprintf("in%d", i), fmt.Sprintf("plugin: \"builtin:file\", settings: {path: %s}",
			filepath.Join(dir, "small.log")),
			fmt.Sprintf("plugin: \"builtin:spool\", settings: {path: %s, mode: hybrid, hybrid.delay: 1h}", spool))
		add(fmt.Sprintf("out%d", i), fmt.Sprintf("plugin: \"builtin:spool\", settings: {path: %s}", spool),
			http(fmt.Sprintf("spool%d", i)))
	}
	add("refused", strings.Replace(great, "great.log", "refused.log", 1), "plugin: \"builtin:file\", settings: {path: "+
		filepath.Join(dir, "refused.txt")+
		", sdk.record.format: template, sdk.record.format.options: '{{ fail \"no\" }}'}")
	text.WriteString("    dead-letter-queue: {plugin: \"builtin:file\", settings: {path: /dev/null}, window-size: " +
		"10, window-nack-threshold: 9}\n")
	return text.String()
}

// inspectNothing inspects a connector without reading the inspected records.
func inspectNothing(t *testing.T, address, connector string) {
	t.Helper()
	at, err := os.ReadFile(address)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", strings.TrimSpace(string(at)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := fmt.Fprintf(c, "GET /v1/connectors/%s/inspect HTTP/1.1\r\nHost: localhost\r\n\r\n",
		connector); err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 1)
	if _, err := c.Read(first); err != nil { // the session has begun
		t.Fatal(err)
	}
}

// showDeadLetters requests the same dead letter many times at once. Each request is answered, or refused for lack of
// memory.
func showDeadLetters(t *testing.T, address string, shown int) {
	t.Helper()
	at, err := os.ReadFile(address)
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + strings.TrimSpace(string(at)) + "/v1/pipelines/refused/dead-letters/1"
	wait.For(t, "a dead letter", func() bool {
		code, _ := ask(url)
		return code == http.StatusOK
	}, func() string { return fmt.Sprint(ask(url)) })
	var all sync.WaitGroup
	for range shown {
		all.Go(func() {
			if code, n := ask(url); code != http.StatusTooManyRequests && (code != http.StatusOK || n < greatRecord) {
				t.Errorf("a dead letter is answered with %d and %d bytes", code, n)
			}
		})
	}
	all.Wait()
}

// ask returns the status of an answer and its size in bytes.
func ask(url string) (status int, bytes int64) {
	resp, err := http.Get(url)
	if err != nil {
		return 0, 0
	}
	defer resp.Body.Close()
	n, _ := io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, n
}

// value returns the sum of the series of a metric.
func value(address, name string) (sum float64) {
	for series := range strings.SplitSeq(metric(address, name), ", ") {
		if _, text, ok := strings.Cut(series, " "); ok {
			n, _ := strconv.ParseFloat(text, 64)
			sum += n
		}
	}
	return sum
}
