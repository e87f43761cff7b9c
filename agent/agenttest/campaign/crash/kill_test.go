package crash_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/process"
)

// repeatBound limits the age of repeated records: the time between reading a record and the kill after which it is
// repeated. That is a commit interval of 50 ms plus the duration of a commit on a busy disk.
const repeatBound = 30 * time.Second

// killsOfOne is how often one agent is killed, which keeps all its output until the end. Larger runs use several
// agents, some at the same time.
const killsOfOne = 250

// TestKillLosesNothing checks that a kill -9 at any moment loses and reorders nothing, and repeats only records that
// were read since the last commit.
func TestKillLosesNothing(t *testing.T) {
	n := *kills
	load.Parallel(t, load.Agent*(1+(n-1)/killsOfOne))
	if n <= killsOfOne {
		t.Log(killOften(t, n))
		return
	}
	var all killed
	t.Run("agents", func(t *testing.T) {
		for first := 0; first < n; first += killsOfOne {
			t.Run(strconv.Itoa(first+1), func(t *testing.T) {
				t.Parallel()
				one := killOften(t, min(killsOfOne, n-first))
				t.Log(one)
				all.add(one)
			})
		}
	})
	t.Log("all: ", &all)
}

// killOften kills an agent n times and checks its output files. The file that the agent follows is rotated about once a
// second.
func killOften(t *testing.T, n int) *killed {
	const rate = 5000 // records per second in each pipeline
	dir := t.TempDir()
	process.WritePipelines(t, dir, fmt.Sprintf(process.Pipelines, dir, rate))
	feed, fed := context.WithCancel(t.Context())
	lines := make(chan int)
	rotate := make(chan struct{})
	go func() { lines <- feedRotated(feed, filepath.Join(dir, "input.log"), rate, rotate) }()

	made, tailed := filepath.Join(dir, "made.jsonl"), filepath.Join(dir, "tailed.jsonl")
	k := &killed{starts: 100 * time.Millisecond}
	for i := range n {
		if i == max(1, n/10) { // until there is a position, the source reads only the current file
			process.CatchUp(t, dir, tailed, process.LastSeen(tailed)+1)
			close(rotate)
		}
		k.kill(t, process.Start(t, dir), made, tailed)
	}
	fed()
	want := <-lines
	process.CatchUp(t, dir, tailed, want)

	for _, path := range []string{made, tailed} {
		o := process.Inspect(t, path, k.at)
		k.records, k.repeated, k.oldest = k.records+o.Last, k.repeated+o.Repeated, max(k.oldest, o.Oldest)
		if o.Oldest > repeatBound {
			t.Errorf("%s: a record was repeated that was read %v before the kill, want at most %v", path, o.Oldest,
				repeatBound)
		}
		if o.Torn > n {
			t.Errorf("%s: %d torn lines with %d kills", path, o.Torn, n)
		}
		if path == tailed && o.Last != want {
			t.Errorf("%d of %d lines arrived", o.Last, want)
		}
	}
	return k
}
