package e2e_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/effort"
)

// However often the agent is stopped with SIGTERM, nothing is lost or repeated, and nothing is out
// of order. CONDUIT_TERMINATIONS sets how often.
func TestTerminationsRepeatNothing(t *testing.T) {
	effort.Long(t)
	t.Parallel()
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
