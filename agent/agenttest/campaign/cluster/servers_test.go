package cluster_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/spec"
)

// TestServers kills one of three NATS servers, which interrupts the cluster only briefly. Then it kills a second one,
// so that every pipeline stops, for longer than the lifetime of a session. When the servers are back, each member
// resumes the pipelines that it had, even if it returns later than the other member.
func TestServers(t *testing.T) {
	load.Parallel(t, 3*load.Server+2*load.Agent)
	const lives = 15 * time.Second
	f := newFleet(t, 3, 2, 4, lives)
	f.feed(20)
	f.await()
	f.awaitShares()
	f.servers[0].Kill()
	f.feed(20)
	t.Logf("after one of three servers was killed: %v", f.await())
	owners := f.owners()
	at, _ := f.busiest()
	f.servers[1].Kill()
	for _, m := range f.members {
		m.awaitLog("reason=SelfStopped")
		m.awaitCluster("the other is silent for longer than a session lives", func(c *spec.Cluster) bool {
			return slices.ContainsFunc(c.Members, func(m spec.ClusterMember) bool {
				return m.SilentSeconds > lives.Seconds()+1
			})
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
	wait.For(t, "one member to have a session", func() bool {
		return strings.Count(early.log.String(), "reason=Joined") > joined
	})
	back := time.Now()
	early.awaitCluster("it had the time to take over what the other has", func(*spec.Cluster) bool {
		return time.Since(back) > lives/3
	})
	late.signal(syscall.SIGCONT)
	f.await()
	t.Logf("after the quorum came back: %v", time.Since(begin))
	f.mustStay(owners)
}

// awaitShares waits until every member has a pipeline, so that no member hands one over to a member without any.
func (f *fleet) awaitShares() {
	f.t.Helper()
	for _, m := range f.members {
		f.members[0].awaitCluster(m.name+" has a pipeline", func(c *spec.Cluster) bool { return owned(c, m.name) > 0 })
	}
}

// mustStay checks that no pipeline moved: all members are alive.
func (f *fleet) mustStay(owners map[string]string) {
	f.t.Helper()
	for id, owner := range f.owners() {
		if owner != owners[id] {
			f.t.Errorf("%s went from %s to %s, both of which live", id, owners[id], owner)
		}
	}
	for _, m := range f.members {
		if strings.Contains(m.log.String(), "reason=TookOver") {
			f.t.Errorf("%s took over a pipeline of a member that lives", m.name)
		}
	}
}

// TestLostLeader kills the server that leads the stream of the cluster, when the lifetime of a session is shorter than
// the election of another leader may take: no pipeline moves, and every line arrives.
func TestLostLeader(t *testing.T) {
	load.Parallel(t, 3*load.Server+2*load.Agent)
	f := newFleet(t, 3, 2, 4, 5*time.Second)
	f.feed(20)
	f.await()
	f.awaitShares()
	owners, led := f.owners(), f.leader(0)
	if led < 0 {
		t.Fatal("no server leads the stream")
	}
	f.servers[led].Kill()
	f.feed(20)
	begin := time.Now()
	wait.For(t, "another server to lead", func() bool {
		now := f.leader((led + 1) % len(f.servers))
		return now >= 0 && now != led
	})
	elected := time.Since(begin)
	for _, m := range f.members {
		m.awaitCluster("every member has a session", func(c *spec.Cluster) bool {
			return !slices.ContainsFunc(c.Members, func(m spec.ClusterMember) bool { return m.SilentSeconds > 2 })
		})
	}
	f.feed(20)
	f.await()
	t.Logf("elected after %v", elected)
	f.mustStay(owners)
}

// leader returns the index of the server that leads the stream of the cluster, according to another server; -1:
// unknown.
func (f *fleet) leader(by int) int {
	f.t.Helper()
	conn, err := nats.Connect(f.servers[by].URL())
	if err != nil {
		f.t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Second)
	defer cancel()
	stream, err := js.Stream(ctx, "KV_conduit-test")
	if err != nil {
		return -1
	}
	n, err := strconv.Atoi(strings.TrimPrefix(stream.CachedInfo().Cluster.Leader, "n"))
	if err != nil {
		return -1
	}
	return n
}
