//go:build linux && (amd64 || arm64)

package cluster_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/clock"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/spec"
)

// TestWrongClocks sets the wall clocks of two members two hours apart, and lets them jump by two hours while the
// members run: no pipeline moves for that reason, and the pipelines of a killed member are taken over as usual.
func TestWrongClocks(t *testing.T) {
	load.Parallel(t, load.Server+2*load.Agent)
	const lives = 5 * time.Second
	urls := server.StartNATS(t, 1)[0].URL()
	f := joined(t, []string{urls, urls}, 0, lives)
	clocks := make([]*clock.Clock, len(f.members))
	for i, m := range f.members {
		m.stop()
		clocks[i] = clock.New(t)
		m.join = clocks[i].Join
	}
	clocks[0].SetAhead(time.Hour)
	clocks[1].SetAhead(-time.Hour)
	f.behind = ` {{ index .Metadata "conduit.cluster.epoch" }}`
	f.written = make([]int, 4)
	for i := range f.written {
		f.declare(i)
	}
	for _, m := range f.members {
		m.start()
		m.awaitLog("reason=Joined")
	}
	f.feed(20)
	f.await()
	started := decoded[spec.Cluster](f.members[0], "GET", "/v1/cluster").Members
	if len(started) != 2 || started[0].StartedAt.Sub(started[1].StartedAt).Abs() < 90*time.Minute {
		t.Fatalf("the clocks of the members do not differ: %+v", started)
	}
	ahead := time.Hour
	for range *jumps { // one clock is set back and the other one forward
		ahead = -ahead
		clocks[0].SetAhead(ahead)
		clocks[1].SetAhead(-ahead)
		jumped := time.Now()
		f.feed(20)
		f.await()
		wait.For(t, "longer than a session lives", func() bool { return time.Since(jumped) > 2*lives })
	}
	for _, m := range f.members {
		for _, reason := range []string{"SelfStopped", "SessionLost", "TookOver", "Fenced", "RolledBack"} {
			if strings.Contains(m.log.String(), "reason="+reason) {
				t.Errorf("%s: %s, though only clocks jumped", m.name, reason)
			}
		}
	}
	at, _ := f.busiest()
	owners := f.owners()
	f.members[at].kill()
	f.feed(20)
	f.await()
	f.members[1-at].awaitLog("reason=TookOver")
	for i := range f.written {
		if moved, epochs := owners[fmt.Sprintf("p%d", i)] == f.members[at].name, f.epochs(i); slices.Contains(epochs,
			0) || !slices.IsSorted(epochs) || moved && len(epochs) < 2 {
			t.Errorf("p%d, which was taken over: %v, wrote records of the epochs %v", i, moved, epochs)
		}
	}
}

// epochs returns the sequence of epochs in the records that a pipeline wrote, 0 for records without one.
func (f *fleet) epochs(i int) (all []uint64) {
	f.t.Helper()
	text, err := os.ReadFile(f.out(i))
	if err != nil {
		f.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		_, behind, _ := strings.Cut(strings.TrimSpace(line), " ")
		epoch, _ := strconv.ParseUint(behind, 10, 64)
		all = append(all, epoch)
	}
	return slices.Compact(all)
}

// TestServerClockSetBack sets the clock of the server back by an hour after a member was killed, whose session the
// server then keeps: the other member takes over nevertheless, and the killed member joins again.
func TestServerClockSetBack(t *testing.T) {
	load.Parallel(t, load.Server+2*load.Agent)
	const lives = 5 * time.Second
	clock := clock.New(t)
	f := newFleet(t, 1, 2, 4, lives)
	s := f.servers[0]
	s.Kill()
	s.Env = clock.Env()
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.feed(20)
	f.await()
	f.awaitShares()
	at, _ := f.busiest()
	dead, other := f.members[at], f.members[1-at]
	killed := time.Now()
	dead.kill()
	clock.SetAhead(-time.Hour)
	f.feed(20)
	f.await()
	took := time.Since(killed)
	other.awaitLog("reason=TookOver")
	if took < lives*3/2 {
		t.Errorf("taken over after %v, want twice %v: did the server keep the session?", took, lives)
	}
	dead.start()
	dead.awaitLog("reason=Joined")
	f.feed(20)
	f.await()
}
