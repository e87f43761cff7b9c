package natskv_test

import (
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/cluster/claims"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/cluster/natskv"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
)

// TestClaimsAreLinearizable writes the same claims from three members while their links stall and are cut, and a server
// is killed: the history is linearizable.
func TestClaimsAreLinearizable(t *testing.T) {
	load.Parallel(t, 3*load.Server)
	servers := server.StartNATS(t, 3)
	proxies, stores := make([]*network.Proxy, len(servers)), make([]cluster.Store, len(servers))
	for i, s := range servers {
		proxies[i] = network.NewProxy(t, s.Addr)
		stores[i] = open(t, natskv.Options{URL: "nats://" + proxies[i].Addr(), Cluster: "test", Replicas: 3})
	}
	w := claims.NewWriters(t, stores...)
	w.Break(proxies)
	servers[0].Kill()
	w.More()
	if err := servers[0].Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.More()
	w.Check()
}
