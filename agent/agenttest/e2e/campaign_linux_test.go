package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
)

// However often the agent is stopped with SIGTERM, nothing is lost or repeated, and nothing is out
// of order. CONDUIT_TERMINATIONS sets how often.
func TestTerminationsRepeatNothing(t *testing.T) {
	dir := t.TempDir()
	writePipelines(t, dir, fmt.Sprintf(killPipelines, dir, 2000))
	feed, fed := context.WithCancel(t.Context())
	lines := make(chan int)
	go func() { lines <- feedLines(feed, filepath.Join(dir, "input.log"), 2000) }()
	made, tailed := filepath.Join(dir, "made.jsonl"), filepath.Join(dir, "tailed.jsonl")
	n := setting(t, "CONDUIT_TERMINATIONS", 5)
	for i := range n {
		p := startProcess(t, dir)
		p.grows(t, made, tailed)
		p.waitFor(t, fmt.Sprintf("start %d", i), func() bool { return strings.Contains(p.log.String(), "agent started") }) // before, it would not know SIGTERM
		p.terminate(t)
	}
	fed()
	want := <-lines
	catchUp(t, dir, tailed, want)
	for _, path := range []string{made, tailed} {
		o := inspect(t, path, nil)
		t.Logf("%s: %d records, %d times SIGTERM, %d repeated, %d torn lines", filepath.Base(path), o.last, n, o.repeated, o.torn)
		if o.repeated+o.torn > 0 {
			t.Errorf("%s: %d repeated, %d torn lines", path, o.repeated, o.torn)
		}
	}
	if o := inspect(t, tailed, nil); o.last != want {
		t.Errorf("%d of %d lines arrived", o.last, want)
	}
}

const soakPipelines = `version: "2.2"
pipelines:
  - id: fast
    connectors:
      - {id: src, type: source, plugin: "builtin:generator", settings: {format.type: structured, format.options.n: int}}
      - {id: dst, type: destination, plugin: "builtin:file", settings: {path: /dev/null}}
  - id: failing
    connectors:
      - {id: src, type: source, plugin: "builtin:generator", settings: {rate: 100, format.type: raw, format.options.n: int}}
      - {id: dst, type: destination, plugin: "builtin:file", settings: {path: /dev/full}}
  - id: edited
    connectors:
      - {id: src, type: source, plugin: "builtin:generator", settings: {rate: %d, format.type: raw, format.options.n: int}}
      - {id: dst, type: destination, plugin: "builtin:file", settings: {path: /dev/null}}
`

// used is what a process has.
type used struct {
	fds, goroutines int
	resident        int64
}

// usedBy returns what the agent whose address is in a file has.
func usedBy(t *testing.T, p *process, address string) (u used) {
	t.Helper()
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	at, err := os.ReadFile(address)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get("http://" + strings.TrimSpace(string(at)) + "/v1/agent")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var status struct {
		Goroutines int
		Memory     struct{ Resident int64 }
	}
	if err := json.NewDecoder(resp.Body).Decode(&status); err != nil {
		t.Fatal(err)
	}
	return used{len(fds), status.Goroutines, status.Memory.Resident}
}

// At full speed, with a pipeline that fails all the time and one that is changed all the time,
// memory, file descriptors and goroutines stay where they were after the first part of the time.
// CONDUIT_SOAK_SECONDS sets how long it runs, 8 by default in CI and 3 elsewhere.
func TestSoakStaysFlat(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	address := filepath.Join(dir, "address")
	writePipelines(t, dir, fmt.Sprintf(soakPipelines, 100))
	p := startProcess(t, dir, addressFile+"="+address)
	t.Cleanup(p.kill)
	p.waitFor(t, "its address", func() bool { return fileSize(address) > 0 })
	seconds := 3
	if agenttest.Thorough() {
		seconds = 8
	}
	length := time.Duration(setting(t, "CONDUIT_SOAK_SECONDS", seconds)) * time.Second
	var base, most used
	edits, began := 0, time.Now()
	saves := time.NewTicker(200 * time.Millisecond)
	defer saves.Stop()
	for time.Since(began) < length {
		edits++
		writePipelines(t, dir, fmt.Sprintf(soakPipelines, 100+edits%2))
		<-saves.C // about as often as a person saves
		switch u := usedBy(t, p, address); {
		case time.Since(began) < length/3:
			base = used{max(base.fds, u.fds), max(base.goroutines, u.goroutines), max(base.resident, u.resident)}
		default:
			most = used{max(most.fds, u.fds), max(most.goroutines, u.goroutines), max(most.resident, u.resident)}
		}
	}
	records := metric(address, `conduit_connector_records_total{component_id="fast:dst"`)
	t.Logf("%v, %d edits: at most %+v, %+v in the first third; %s", length, edits, most, base, records)
	count, err := strconv.ParseFloat(records[strings.LastIndexByte(records, ' ')+1:], 64)
	if err != nil || count < 1000 {
		t.Errorf("%q arrived", records)
	}
	if most.fds > base.fds+10 || most.goroutines > base.goroutines+20 || most.resident > base.resident*5/4+16<<20 {
		t.Errorf("at most %+v after %+v", most, base)
	}
	p.terminate(t)
}

// metric returns the lines of the metrics of the agent that begin with prefix.
func metric(address, prefix string) string {
	at, err := os.ReadFile(address)
	if err != nil {
		return ""
	}
	resp, err := http.Get("http://" + strings.TrimSpace(string(at)) + "/metrics")
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	var found []string
	body, _ := io.ReadAll(resp.Body)
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, prefix) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return strings.Join(found, ", ")
}
