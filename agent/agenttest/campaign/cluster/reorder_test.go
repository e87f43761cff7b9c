package cluster_test

import (
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// TestReorderedLinks duplicates and reorders messages between members and NATS while lines are copied, and a member is
// killed and comes back: every line arrives, in order.
func TestReorderedLinks(t *testing.T) {
	load.Parallel(t, load.Server+3*load.Agent)
	nats := server.StartNATS(t, 1)[0]
	proxies, urls := make([]*network.Proxy, 3), make([]string, 3)
	for i := range proxies {
		proxies[i] = network.NewNATSProxy(t, nats.Addr)
		urls[i] = "nats://" + proxies[i].Addr()
	}
	const lines = 50
	f := joined(t, urls, 6, *session)
	f.feed(lines)
	f.await()
	for _, p := range proxies {
		p.Reorder()
	}
	feedUntil := func(reordered int64) {
		for _, p := range proxies {
			wait.For(t, "messages to come twice and late", func() bool {
				f.feed(1)
				again, late := p.Reordered()
				return again >= reordered && late >= reordered
			})
		}
		f.await()
	}
	feedUntil(10)
	at, _ := f.busiest()
	f.members[at].kill()
	f.feed(lines)
	f.awaitTakeOver(at)
	f.await()
	f.members[at].start()
	feedUntil(50)
	repeats := 0
	for i := range f.written {
		_, r := f.arrived(i)
		repeats += r
	}
	again, late := int64(0), int64(0)
	for _, p := range proxies {
		a, l := p.Reordered()
		again, late = again+a, late+l
	}
	t.Logf("%d lines of each of %d pipelines, %d messages came twice, %d late: 0 lost, %d repeats", f.written[0],
		len(f.written), again, late, repeats)
}
