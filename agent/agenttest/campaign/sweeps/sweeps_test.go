//go:build linux && (amd64 || arm64)

package sweeps_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
)

// fault is a fault at a call.
type fault struct {
	name  string
	errno syscall.Errno
	kill  bool
	says  []string // alternative texts of the log about the fault
}

// unwritten is the log text for a failed call of SQLite during the closing of a file, which SQLite does not explain.
const unwritten = "the write-ahead log was not written back"

var kinds = []fault{
	{name: "kill", errno: syscall.EIO, kill: true},
	{name: "EIO", errno: syscall.EIO, says: []string{"input/output error", "disk I/O error", "is read-only",
		"cannot be read or written", unwritten}},
	{name: "ENOSPC", errno: syscall.ENOSPC,
		says: []string{"no space left", "disk is full", "is read-only", "cannot be read or written", unwritten}},
}

// place is a call: its number, from 1, among the calls with the same operation on files of the same name.
type place struct {
	call   string
	number int
}

func (p place) String() string { return fmt.Sprintf("%s %d", p.call, p.number) }

var tried = flag.Int("places", 1, "places that are tried of each scenario; 0 is all of them, with every fault")

// TestSweeps kills the agent, or makes one of its system calls fail, at one place in each run of a scenario.
func TestSweeps(t *testing.T) {
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			load.Parallel(t, load.Agent) // sequential
			sweep(t, s, *tried)
		})
	}
}

// sweep runs a scenario once without a fault, and then with a fault at each of some places.
func sweep(t *testing.T, s scenario, try int) {
	clean := &world{t: t, names: map[string]bool{}}
	clean.run(s)
	clean.mu.Lock()
	places, faults := clean.calls, len(kinds)
	clean.mu.Unlock()
	all := len(places)
	if all < 20 {
		t.Fatalf("there are only %d calls: %v", all, places)
	}
	if try > 0 {
		rand.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
		places, faults = places[:min(try, len(places))], 1
	}
	runs, reached := 0, 0
	for i, at := range places {
		for k := range faults {
			f := kinds[(i+k)%len(kinds)]
			t.Run(f.name+" "+strings.ReplaceAll(at.String(), "/", ":"), func(t *testing.T) {
				w := &world{t: t, fault: f, at: at, names: clean.names}
				w.run(s)
				runs++
				if w.hit.Load() {
					reached++
				}
			})
		}
	}
	t.Logf("%d places of %d, %d runs, %d reached their place", len(places), all, runs, reached)
}
