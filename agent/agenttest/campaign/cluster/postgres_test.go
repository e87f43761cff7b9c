package cluster_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/effort"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pg"
	"github.com/conduit-agent/conduit/plugins/plugintest/server"
)

// eachStore runs a test with each kind of store of the cluster, at its URL.
func eachStore(t *testing.T, test func(t *testing.T, url string)) {
	t.Run("NATS", func(t *testing.T) {
		t.Parallel()
		test(t, server.StartNATS(t, 1)[0].URL())
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		test(t, postgresURL(server.StartPostgres(t, "", "fsync=on").Addr))
	})
}

func postgresURL(addr string) string {
	return "postgres://postgres@" + addr + "/postgres?sslmode=disable"
}

// TestPostgres kills one of three members of a cluster whose claims are in PostgreSQL, and the server, and ends its
// sessions: every line arrives, in order. Where CI is set the server is away for longer than a session lives, a member is
// paused, and the links of others are slow and stall, too.
func TestPostgres(t *testing.T) {
	t.Parallel()
	p := server.StartPostgres(t, "", "fsync=on")
	proxies, urls := make([]*server.Proxy, 3), make([]string, 3)
	for i := range urls {
		proxies[i] = server.NewProxy(t, p.Addr)
		urls[i] = postgresURL(proxies[i].Addr())
	}
	f := joined(t, urls, 6, ttl)
	after := func(what string) {
		t.Helper()
		f.feed(100)
		t.Logf("%s: %v", what, f.await())
	}
	after("first lines")
	p.Kill()
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	after("after the server was killed")
	withPostgres(t, postgresURL(p.Addr), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'conduit' AND pid <> pg_backend_pid()", "")
	after("after all sessions were ended")
	at, _ := f.busiest()
	f.members[at].kill()
	after("after a member was killed")
	if !slices.ContainsFunc(f.members, func(m *member) bool { return strings.Contains(m.log.String(), "reason=TookOver") }) {
		t.Error("no pipeline was taken over from the member that was killed")
	}
	if !effort.Thorough() {
		return
	}
	f.members[at].start()
	f.members[at].awaitLog("reason=Joined")
	p.Kill()
	for _, m := range f.members {
		m.awaitLog("reason=SelfStopped")
	}
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	after("after the server was away")
	for _, fault := range faults {
		at, _ := f.busiest()
		if fault.name == "kill -9" {
			continue
		}
		fault.do(f.members[at], proxies[at])
		after(fault.name)
		if fault.name != "slow link" {
			f.awaitTakeOver(at)
			after("others have its pipelines")
		}
		fault.heal(f.members[at], proxies[at])
		after("when it is over")
	}
}

// TestPromotedStandby promotes a standby that has all that was acknowledged: the pipelines go on, each where it was.
func TestPromotedStandby(t *testing.T) {
	t.Parallel()
	if !effort.Thorough() {
		t.Skip("the standby of a store is promoted where CI is set")
	}
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

// withPostgres executes statements, and then a query whose only value it returns.
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

// TestPasswordOfTheStore checks that an agent shows no password of the store of its cluster, which it cannot reach.
func TestPasswordOfTheStore(t *testing.T) {
	t.Parallel()
	const url = "postgres://conduit:pass-of-the-store@127.0.0.1:1/conduit?sslmode=disable"
	m := newMember(t, "m0", t.TempDir(), url, ttl)
	for i := range m.config.Effective {
		if e := &m.config.Effective[i]; e.Key == "cluster.postgres.url" {
			e.Value = url
		}
	}
	m.start()
	m.awaitLog("cannot use PostgreSQL for the cluster")
	m.awaitCluster("it waits for PostgreSQL", func(c *rest.Cluster) bool {
		return c.State == rest.ClusterJoining && strings.Contains(c.Message, "PostgreSQL has not answered yet")
	})
	settings := m.call("GET", "/v1/agent")
	if !strings.Contains(settings, `"cluster.postgres.url","value":"***"`) {
		t.Errorf("the address of the store is not hidden: %s", settings)
	}
	if strings.Contains(settings+m.log.String(), "pass-of-the-store") {
		t.Error("the password of the store is in the answer or in the log")
	}
}
