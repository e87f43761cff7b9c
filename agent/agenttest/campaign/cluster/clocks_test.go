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
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// TestWrongClocks has the wall clocks of two members be two hours apart, and has them jump by two hours while the members
// run: nothing moves because of it, and what a member had that is killed is taken over as ever.
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
	started := decoded[rest.Cluster](f.members[0], "GET", "/v1/cluster").Members
	if len(started) != 2 || started[0].StartedAt.Sub(started[1].StartedAt).Abs() < 90*time.Minute {
		t.Fatalf("the clocks of the members do not differ: %+v", started)
	}
	ahead := time.Hour
	for range *jumps { // one clock goes back then, and the other one ahead
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
		if moved, epochs := owners[fmt.Sprintf("p%d", i)] == f.members[at].name, f.epochs(i); slices.Contains(epochs, 0) || !slices.IsSorted(epochs) || moved && len(epochs) < 2 {
			t.Errorf("p%d, which was taken over: %v, wrote records of the epochs %v", i, moved, epochs)
		}
	}
}

// epochs returns those of the records that a pipeline wrote, one after the other, 0 for none.
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

// TestServerClockSetBack sets the clock of the server back by an hour when a member was killed, whose session it then
// keeps: the other one takes over all the same, and the member joins again.
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
