package crash_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/process"
)

// However often the agent is stopped with SIGTERM, nothing is lost or repeated, and nothing is out
// of order.
func TestTerminationsRepeatNothing(t *testing.T) {
	load.Parallel(t, load.Agent)
	dir := t.TempDir()
	process.WritePipelines(t, dir, fmt.Sprintf(process.Pipelines, dir, 2000))
	feed, fed := context.WithCancel(t.Context())
	lines := make(chan int)
	go func() { lines <- process.FeedLines(feed, filepath.Join(dir, "input.log"), 2000) }()
	made, tailed := filepath.Join(dir, "made.jsonl"), filepath.Join(dir, "tailed.jsonl")
	n := *terminations
	for i := range n {
		p := process.Start(t, dir)
		p.WaitGrowth(t, made, tailed)
		// Before this line is logged, SIGTERM would end the process at once.
		p.WaitFor(t, fmt.Sprintf("start %d", i), func() bool {
			return strings.Contains(p.Log.String(), "agent started")
		})
		p.Terminate(t)
	}
	fed()
	want := <-lines
	process.CatchUp(t, dir, tailed, want)
	for _, path := range []string{made, tailed} {
		o := process.Inspect(t, path, nil)
		t.Logf("%s: %d records, %d times SIGTERM, %d repeated, %d torn lines", filepath.Base(path), o.Last, n,
			o.Repeated,
			o.Torn)
		if o.Repeated+o.Torn > 0 {
			t.Errorf("%s: %d repeated, %d torn lines", path, o.Repeated, o.Torn)
		}
	}
	if o := process.Inspect(t, tailed, nil); o.Last != want {
		t.Errorf("%d of %d lines arrived", o.Last, want)
	}
}
