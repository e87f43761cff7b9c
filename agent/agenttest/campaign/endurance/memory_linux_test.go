//go:build !race

package endurance_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/process"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// sink is an HTTP server that answers only small bodies while it is dead, and counts the bytes that it accepted from
// each pipeline.
type sink struct {
	*httptest.Server
	alive chan struct{} // closed when it answers

	mu      sync.Mutex
	asked   int            // guarded by mu: number of requests
	arrived map[string]int // guarded by mu: by path
}

func newSink(t *testing.T) *sink {
	s := &sink{alive: make(chan struct{}), arrived: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked++
		s.mu.Unlock()
		if r.ContentLength > smallBody {
			select {
			case <-s.alive:
			case <-r.Context().Done():
				return
			}
		}
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.arrived[r.URL.Path] += int(n)
	}))
	t.Cleanup(s.Close)
	return s
}

// smallBody is the maximum size of bodies that a dead sink accepts.
const smallBody = 1 << 10

// greatRecord is the size of the records of TestMemoryLimitIsKept.
const greatRecord = 16 << 20

// TestMemoryLimitIsKept checks that an agent with records of 16 MiB and a dead sink stays within its memory limit for
// any number of pipelines, and that all records arrive once the sink is alive. It runs without the race detector, which
// needs memory itself.
func TestMemoryLimitIsKept(t *testing.T) {
	load.Parallel(t, load.Agent)
	const limit = 512 << 20
	n, dir, s := *pipelines, t.TempDir(), newSink(t)
	great := filepath.Join(dir, "great.log")
	line := append(bytes.Repeat([]byte{'x'}, greatRecord-1), '\n')
	if err := os.WriteFile(great, append(line, line...), 0o600); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	text.WriteString("version: \"2.2\"\npipelines:\n")
	for i := range n {
		fmt.Fprintf(&text, "  - id: p%[1]d\n    connectors:\n"+
			"      - {id: src, type: source, plugin: \"builtin:file\", settings: {path: %[2]s}}\n"+
			"      - {id: dst, type: destination, plugin: \"builtin:http\", settings: {url: %[3]s/p%[1]d, "+
			"timeout: 1h}}\n", i, great, s.URL)
	}
	process.WritePipelines(t, dir, text.String())
	address := filepath.Join(dir, "address")
	p := process.Start(t, dir, process.MemoryLimit+"="+strconv.Itoa(limit), process.AddressFile+"="+address)
	t.Cleanup(p.Kill)
	await := func(what string, done func() bool) {
		t.Helper()
		wait.For(t, what, done, func() string { return metric(address, "conduit_memory") }, p.Log.String)
	}
	await("sources that wait for memory", func() bool {
		var waiting int
		_, _ = fmt.Sscanf(metric(address, "conduit_memory_waiting_sources"), "conduit_memory_waiting_sources %d",
			&waiting)
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.asked > 0 && waiting+s.asked >= n
	})
	t.Logf("sink dead: peak %d MiB, %s", peak(t, p)>>20, metric(address, "conduit_memory"))
	close(s.alive)
	for i := range n {
		await(fmt.Sprintf("all records of p%d", i), func() bool {
			return s.arrivedBytes(fmt.Sprintf("/p%d", i)) >= 2*greatRecord
		})
	}
	t.Logf("%d pipelines, %d records of 16 MiB: peak %d MiB", n, 2*n, peak(t, p)>>20)
	if got := peak(t, p); got > limit {
		t.Errorf("the agent took %d MiB, the limit is %d MiB", got>>20, limit>>20)
	}
	p.Terminate(t)
}

// peak returns the maximum memory of the process.
func peak(t *testing.T, p *process.Process) (bytes int64) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(status), "VmHWM:")
	if _, err := fmt.Sscanf(line, "%d kB", &bytes); err != nil {
		t.Fatal(err)
	}
	return bytes << 10
}
