package cluster_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/spec"
)

// TestFormerOwnerHolds stalls the link of the owner of a pipeline, and then pauses the owner. With a stalled link, it
// stops writing once its position has waited for too long. When it continues after its session expired, it writes
// nothing: another member does, and repeats little.
func TestFormerOwnerHolds(t *testing.T) {
	load.Parallel(t, load.Server+2*load.Agent)
	nats := server.StartNATS(t, 1)[0]
	proxies := []*network.Proxy{network.NewNATSProxy(t, nats.Addr), network.NewNATSProxy(t, nats.Addr)}
	// The session must outlive stalls of a busy machine.
	f := gathered(t, []string{"nats://" + proxies[0].Addr(), "nats://" + proxies[1].Addr()}, 1, 20*time.Second)
	f.behind = ` {{ index .Metadata "conduit.cluster.epoch" }}`
	f.start()
	f.feed(10)
	f.checkpoint(f.members[0])

	at, _ := f.busiest()
	epoch := f.epoch(f.members[at])
	proxies[at].Hold(true)
	f.feed(1)
	f.await() // its session lives, and no position waits
	f.members[at].awaitCluster("its position to wait", func(c *spec.Cluster) bool {
		return len(c.Pipelines) == 1 && c.Pipelines[0].LagSeconds >= 0.3 && c.Pipelines[0].Held
	})
	f.feed(10)
	f.await()
	f.noneUnder(epoch, 12)
	proxies[at].Heal()
	f.members[at].awaitCluster("it is a member again", func(c *spec.Cluster) bool {
		return c.State == spec.MembershipJoined
	})
	f.checkpoint(f.members[0])

	at, _ = f.busiest()
	epoch = f.epoch(f.members[at])
	f.members[at].signal(syscall.SIGSTOP)
	f.awaitTakeOver(at)
	f.feed(10)
	f.await()
	f.members[at].signal(syscall.SIGCONT)
	f.members[at].awaitCluster("it is a member again", func(c *spec.Cluster) bool {
		return c.State == spec.MembershipJoined && owned(c, f.members[at].name) == 0
	})
	f.feed(10)
	f.await()
	f.noneUnder(epoch, 22)
}

// epoch returns the epoch of the claim of the first pipeline, as a member sees it.
func (f *fleet) epoch(m *member) uint64 {
	f.t.Helper()
	return decoded[spec.Cluster](m, "GET", "/v1/cluster").Pipelines[0].Epoch
}

// noneUnder checks that the first pipeline wrote no line with number from or higher under an epoch.
func (f *fleet) noneUnder(epoch uint64, from int) {
	f.t.Helper()
	text, err := os.ReadFile(f.out(0))
	if err != nil {
		f.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var n int
		var by uint64
		if _, err := fmt.Sscanf(line, "%d %d\n", &n, &by); err != nil {
			f.t.Fatalf("the line %q: %v", line, err)
		}
		if n >= from && by == epoch {
			f.t.Errorf("line %d was written by an owner that was to hold it", n)
		}
	}
}
