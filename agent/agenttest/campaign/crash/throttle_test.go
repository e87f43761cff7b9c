package crash_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/process"
)

// A source that is far faster than its throttle, for longer than its window lasts, is held back: the pipeline keeps
// running, stops on request, and loses nothing when it is killed.
func TestThrottleHoldsItsSourceBack(t *testing.T) {
	load.Parallel(t, load.Agent)
	const rate = 20_000
	const total = 40_000 // several windows of 8,192 records
	dir := t.TempDir()
	var input []byte
	for n := range total {
		input = fmt.Appendf(input, "{\"n\":%d}\n", n+1)
	}
	if err := os.WriteFile(filepath.Join(dir, "input.log"), input, 0o644); err != nil {
		t.Fatal(err)
	}
	throttle := fmt.Sprintf("      - {id: throttle, plugin: throttle, settings: {rate: %d, burst: 50}}\n", rate)
	process.WritePipelines(t, dir, "version: \"2.2\"\npipelines:\n"+decodedToFile(dir, "throttled", throttle))
	began := time.Now()
	out := filepath.Join(dir, "throttled.jsonl")
	arrived := func() int { return agenttest.Number(agenttest.LastOutput(t, out), "n") }
	for i, end := range []func(p *process.Process){
		func(p *process.Process) { p.Kill() },
		func(p *process.Process) { p.Terminate(t) },
		func(p *process.Process) { p.Terminate(t) },
	} {
		p := process.Start(t, dir)
		want := total * (i + 1) / 3
		p.WaitFor(t, fmt.Sprintf("%d records", want), func() bool { return arrived() >= want })
		end(p)
	}
	if took := time.Since(began); took < time.Duration(total)*time.Second/rate/2 {
		t.Errorf("%d records took %v: nothing was throttled", total, took)
	}
	last, back := 0, 0
	for _, m := range agenttest.OutputsIn(t, out) {
		switch n := agenttest.Number(m, "n"); {
		case n > last+1:
			t.Fatalf("record %d follows %d", n, last)
		case n <= last:
			back++
			last = n
		default:
			last = n
		}
	}
	if back > 1 {
		t.Errorf("the order goes back %d times with one kill and two graceful ends", back)
	}
}
