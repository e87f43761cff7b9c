package endurance_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/process"
)

const soakPipelines = `version: "2.2"
pipelines:
  - id: fast
    connectors:
      - {id: src, type: source, plugin: "builtin:generator", settings: {rate: %d, format.type: structured,
         format.options.n: int}}
      - {id: dst, type: destination, plugin: "builtin:file", settings: {path: /dev/null}}
  - id: failing
    connectors:
      - {id: src, type: source, plugin: "builtin:generator", settings: {rate: 100, format.type: raw,
         format.options.n: int}}
      - {id: dst, type: destination, plugin: "builtin:file", settings: {path: /dev/full}}
  - id: crashing
    connectors:
      - {id: src, type: source, plugin: "standalone:xgenerator", settings: {rate: 100, format.type: raw,
         format.options.n: int}}
      - {id: dst, type: destination, plugin: "standalone:xfile", settings: {path: /dev/null}}
  - id: edited
    connectors:
      - {id: src, type: source, plugin: "builtin:generator", settings: {rate: %d, format.type: raw,
         format.options.n: int}}
      - {id: dst, type: destination, plugin: "builtin:file", settings: {path: /dev/null}}
`

// used is the resource usage of a process.
type used struct {
	fds, goroutines int
	resident        int64
}

// add keeps the larger of both values.
func (u *used) add(other used) {
	*u = used{max(u.fds, other.fds), max(u.goroutines, other.goroutines), max(u.resident, other.resident)}
}

// usedBy returns the resource usage of the agent whose address is in a file.
func usedBy(t *testing.T, p *process.Process, address string) (u used) {
	t.Helper()
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.Cmd.Process.Pid))
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

// disturbed counts the disturbances of the agent in TestSoakStaysFlat.
type disturbed struct{ rate, edits, invalid, crashes, hangs int }

// disturb edits a pipeline, and occasionally leaves an invalid file, kills a connector or makes one hang for a second.
func (s *disturbed) disturb(t *testing.T, p *process.Process, dir string) {
	t.Helper()
	s.edits++
	text := fmt.Sprintf(soakPipelines, s.rate, 100+s.edits%2)
	plugins := agenttest.Children(p.Cmd.Process.Pid)
	switch {
	case s.edits%8 == 2:
		s.invalid++
		text += "  - : [\n"
	case s.edits%16 == 4 && len(plugins) > 0:
		if syscall.Kill(plugins[rand.IntN(len(plugins))], syscall.SIGKILL) == nil {
			s.crashes++
		}
	case s.edits%16 == 12 && len(plugins) > 0:
		if plugin := plugins[rand.IntN(len(plugins))]; syscall.Kill(plugin, syscall.SIGSTOP) == nil {
			s.hangs++
			time.AfterFunc(time.Second, func() { _ = syscall.Kill(plugin, syscall.SIGCONT) })
		}
	}
	process.WritePipelines(t, dir, text)
}

// Memory, file descriptors and goroutines stay at their level after the first part of the time, with a fast pipeline, a
// destination that fails, connectors that crash and hang and are restarted each time, and a pipeline that is changed
// all the time.
func TestSoakStaysFlat(t *testing.T) {
	load.Parallel(t, load.Agent)
	dir := t.TempDir()
	address := filepath.Join(dir, "address")
	agenttest.InstallExecutables(t, dir, "xgenerator", "xfile")
	faults := disturbed{rate: *soakRate}
	process.WritePipelines(t, dir, fmt.Sprintf(soakPipelines, faults.rate, 100))
	p := process.Start(t, dir, process.AddressFile+"="+address, process.MaxDelay+"=1s")
	t.Cleanup(p.Kill)
	// Until the connectors run, the agent only queries their specifications.
	p.WaitFor(t, "the connectors to run", func() bool {
		return agenttest.FileSize(address) > 0 &&
			metric(address, `conduit_pipeline_phases_total{phase="running",pipeline_id="crashing"`) != ""
	})
	length := time.Duration(*seconds) * time.Second
	var base, most used
	saves := time.NewTicker(200 * time.Millisecond)
	defer saves.Stop()
	began, rounds := time.Now(), 0
	for ; time.Since(began) < length || rounds < 9; <-saves.C { // about as often as a person saves
		faults.disturb(t, p, dir)
		// On a busy machine a round may take all of the time.
		if u := usedBy(t, p, address); time.Since(began) < length/3 || rounds < 3 {
			base.add(u)
		} else {
			most.add(u)
		}
		rounds++
	}
	records := sum(t, metric(address, `conduit_connector_records_total{component_id="fast:dst"`))
	failures := sum(t, metric(address, `conduit_pipeline_phases_total{phase="recovering"`))
	t.Logf("%v, %+v, %v failures of pipelines, %v records: at most %+v, %+v in the first third", length, faults,
		failures, records, most, base)
	if records < 1000 || failures < 1 {
		t.Errorf("%v records, %v failures", records, failures)
	}
	if most.fds > base.fds+20 || most.goroutines > base.goroutines+50 || most.resident > base.resident*5/4+16<<20 {
		t.Errorf("at most %+v after %+v", most, base)
	}
	p.Terminate(t)
}

// sum adds the values of metrics.
func sum(t *testing.T, metrics string) (all float64) {
	t.Helper()
	for line := range strings.SplitSeq(metrics, ", ") {
		value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil {
			t.Fatal(err)
		}
		all += value
	}
	return all
}

// metric returns the lines of the agent's metrics that begin with prefix.
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
