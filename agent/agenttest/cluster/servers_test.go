package cluster_test

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/effort"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// TestServers kills one of three NATS servers, which stops nothing for long. Where CI is set it kills another one
// then, which stops all for longer than a session lives: when they are back every member goes on with what it had,
// also one that comes back later than the other.
func TestServers(t *testing.T) {
	t.Parallel()
	const lives = 15 * time.Second
	f := newFleet(t, 3, 2, 4, lives)
	f.feed(20)
	f.await()
	f.servers[0].Kill()
	f.feed(20)
	t.Logf("after one of three servers was killed: %v", f.await())
	if !effort.Thorough() {
		return
	}
	owners := f.owners()
	at, _ := f.busiest()
	f.servers[1].Kill()
	for _, m := range f.members {
		m.awaitLog("reason=SelfStopped")
		m.awaitCluster("the other is silent for longer than a session lives", func(c *rest.Cluster) bool {
			return slices.ContainsFunc(c.Members, func(m rest.ClusterMember) bool { return m.SilentSeconds > lives.Seconds()+1 })
		})
	}
	late, early := f.members[at], f.members[1-at]
	late.signal(syscall.SIGSTOP)
	joined := strings.Count(early.log.String(), "reason=Joined")
	f.feed(20)
	begin := time.Now()
	for _, s := range f.servers[:2] {
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	wait.For(t, "one member to have a session", func() bool { return strings.Count(early.log.String(), "reason=Joined") > joined })
	back := time.Now()
	early.awaitCluster("it had the time to take over what the other has", func(*rest.Cluster) bool { return time.Since(back) > lives/3 })
	late.signal(syscall.SIGCONT)
	f.await()
	t.Logf("after the quorum came back: %v", time.Since(begin))
	for id, owner := range f.owners() {
		if owner != owners[id] {
			t.Errorf("%s went from %s to %s, both of which live", id, owners[id], owner)
		}
	}
	for _, m := range f.members {
		if strings.Contains(m.log.String(), "reason=TookOver") {
			t.Errorf("%s took over a pipeline of a member that lives", m.name)
		}
	}
}
