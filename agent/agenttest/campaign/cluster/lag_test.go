package cluster_test

import (
	"slices"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pg"
	"github.com/conduit-agent/conduit/spec"
)

// TestLagOfAnotherMember locks the row with the claim of one of two pipelines: the member that does not run that
// pipeline also reports that its positions wait and that the other pipeline's do not, until the row is unlocked.
func TestLagOfAnotherMember(t *testing.T) {
	load.Parallel(t, load.Server+2*load.Agent)
	url := postgresURL(server.StartPostgres(t, "", "fsync=on").Addr)
	f := joined(t, []string{url, url}, 2, ttl)
	f.feed(10)
	f.await()
	other := f.members[0]
	if f.owner("p0") == other.name {
		other = f.members[1]
	}
	conn, err := pg.Connect(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer pg.Close(conn)
	if err := pg.Execute(t.Context(), conn, "BEGIN; SELECT FROM \"conduit-test\" WHERE key = '"+protocol.ClaimKey("p0")+
		"' FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	f.feed(10)
	lags := func(c *spec.Cluster) (all []float64) {
		for i := range c.Pipelines {
			all = append(all, c.Pipelines[i].LagSeconds)
		}
		return all
	}
	other.awaitCluster("the position of p0 waits", func(c *spec.Cluster) bool {
		all := lags(c)
		return len(all) == 2 && all[0] >= 1 && all[1] < 1
	})
	if err := pg.Execute(t.Context(), conn, "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	for _, m := range f.members {
		m.awaitCluster("no position waits", func(c *spec.Cluster) bool {
			return len(lags(c)) == 2 && slices.Max(lags(c)) < 1
		})
	}
	f.feed(10)
	f.await()
}
