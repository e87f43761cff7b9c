package cluster_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pg"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/spec"
)

// eachStore runs a test, which starts the given number of agents, with each kind of store of the cluster, at its URL.
func eachStore(t *testing.T, agents int, test func(t *testing.T, url string)) {
	t.Run("NATS", func(t *testing.T) {
		load.Parallel(t, load.Server+agents*load.Agent)
		test(t, server.StartNATS(t, 1)[0].URL())
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		load.Parallel(t, load.Server+agents*load.Agent)
		test(t, postgresURL(server.StartPostgres(t, "", "fsync=on").Addr))
	})
}

func postgresURL(addr string) string {
	return "postgres://postgres@" + addr + "/postgres?sslmode=disable"
}

// onPostgres is a cluster of three members whose claims are in PostgreSQL.
type onPostgres struct {
	*fleet
	store   *server.Postgres
	proxies []*network.Proxy // by member
}

func newOnPostgres(t *testing.T) *onPostgres {
	t.Helper()
	p := server.StartPostgres(t, "", "fsync=on")
	proxies, urls := make([]*network.Proxy, 3), make([]string, 3)
	for i := range urls {
		proxies[i] = network.NewProxy(t, p.Addr)
		urls[i] = postgresURL(proxies[i].Addr())
	}
	f := &onPostgres{joined(t, urls, 6, ttl), p, proxies}
	f.after("first lines")
	return f
}

// after waits until further lines have arrived.
func (f *onPostgres) after(what string) {
	f.t.Helper()
	f.feed(100)
	f.t.Logf("%s: %v", what, f.await())
}

// restart starts the server again.
func (f *onPostgres) restart() {
	f.t.Helper()
	if err := f.store.Start(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

// TestPostgres kills one of three members of a cluster whose claims are in PostgreSQL, kills the server, and ends its
// sessions: every line arrives, in order.
func TestPostgres(t *testing.T) {
	load.Parallel(t, load.Server+3*load.Agent)
	f := newOnPostgres(t)
	f.store.Kill()
	f.restart()
	f.after("after the server was killed")
	withPostgres(t, postgresURL(f.store.Addr),
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity "+
			"WHERE application_name = 'conduit' AND pid <> pg_backend_pid()", "")
	f.after("after all sessions were ended")
	at, _ := f.busiest()
	f.members[at].kill()
	f.after("after a member was killed")
	if !slices.ContainsFunc(f.members, func(m *member) bool {
		return strings.Contains(m.log.String(), "reason=TookOver")
	}) {
		t.Error("no pipeline was taken over from the member that was killed")
	}
}

// TestPostgresFaults kills the server for longer than the lifetime of a session, pauses a member, and delays and stalls
// the connections of others. Every line must arrive, in order.
func TestPostgresFaults(t *testing.T) {
	load.Parallel(t, load.Server+3*load.Agent)
	f := newOnPostgres(t)
	f.store.Kill()
	for _, m := range f.members {
		m.awaitLog("reason=SelfStopped")
	}
	f.restart()
	f.after("after the server was away")
	for _, fault := range faults {
		at, _ := f.busiest()
		if fault.name == "kill -9" {
			continue
		}
		fault.do(f.members[at], f.proxies[at])
		f.after(fault.name)
		if fault.name != "slow link" {
			f.awaitTakeOver(at)
			f.after("others have its pipelines")
		}
		fault.heal(f.members[at], f.proxies[at])
		f.after("when it is over")
	}
}

// TestPromotedStandby promotes a standby that has all acknowledged writes: each pipeline resumes from its checkpoint.
func TestPromotedStandby(t *testing.T) {
	load.Parallel(t, 2*load.Server+2*load.Agent)
	p := server.StartPostgres(t, server.PostgresWith(t, "pg_basebackup"), "fsync=on")
	standby := p.Standby(t)
	withPostgres(t, postgresURL(p.Addr), "ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
	url := postgresURL(p.Addr+","+standby.Addr) + "&target_session_attrs=read-write"
	f := joined(t, []string{url, url}, 4, 15*time.Second)
	f.feed(100)
	f.await()
	owners := f.owners()
	p.Kill()
	withPostgres(t, postgresURL(standby.Addr), "SELECT pg_promote()", "")
	f.feed(100)
	t.Logf("after the standby was promoted: %v", f.await())
	for id, owner := range f.owners() {
		if owner != owners[id] {
			t.Errorf("%s went from %s to %s, both of which live", id, owners[id], owner)
		}
	}
	for _, m := range f.members {
		if strings.Contains(m.log.String(), "reason=RolledBack") {
			t.Errorf("%s noticed that the store went back, and it did not", m.name)
		}
	}
}

// withPostgres executes statements, and then a query, and returns the single value in its result.
func withPostgres(t *testing.T, url, statements, query string) string {
	t.Helper()
	conn, err := pg.Connect(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer pg.Close(conn)
	if err := pg.Execute(t.Context(), conn, statements); err != nil {
		t.Fatalf("%s: %v", statements, err)
	}
	if query == "" {
		return ""
	}
	row, err := pg.Row(t.Context(), conn, query)
	if err != nil || len(row) != 1 {
		t.Fatalf("%s: %q, %v", query, row, err)
	}
	return row[0]
}

// TestPasswordOfTheStore checks that an agent never shows the password of the store of its cluster, which it cannot
// reach.
func TestPasswordOfTheStore(t *testing.T) {
	load.Parallel(t, load.Agent)
	const url = "postgres://conduit:pass-of-the-store@127.0.0.1:1/conduit?sslmode=disable"
	m := newMember(t, "m0", t.TempDir(), url, ttl)
	for i := range m.config.Effective {
		if e := &m.config.Effective[i]; e.Key == "cluster.postgres.url" {
			e.Value = url
		}
	}
	m.start()
	m.awaitLog("cannot use PostgreSQL for the cluster")
	m.awaitCluster("it waits for PostgreSQL", func(c *spec.Cluster) bool {
		return c.State == spec.MembershipJoining && strings.Contains(c.Message, "PostgreSQL has not responded yet")
	})
	settings := m.call("GET", "/v1/agent")
	if !strings.Contains(settings, `"cluster.postgres.url","value":"***"`) {
		t.Errorf("the address of the store is not hidden: %s", settings)
	}
	if strings.Contains(settings+m.log.String(), "pass-of-the-store") {
		t.Error("the password of the store is in the answer or in the log")
	}
}
