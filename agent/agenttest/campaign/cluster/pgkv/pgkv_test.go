// Package pgkv_test tests the store of a cluster in PostgreSQL, against real servers.
package pgkv_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/cluster/claims"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/agent/agenttest/clustertest"
	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/cluster/pgkv"
	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pg"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// durable are the settings without which a server is refused.
var durable = []string{"fsync=on"}

func urlOf(p *server.Postgres) string {
	return "postgres://postgres@" + p.Addr + "/postgres?sslmode=disable"
}

func open(t *testing.T, url, name string) *pgkv.Store {
	t.Helper()
	s, err := pgkv.Open(pgkv.Options{URL: url, Cluster: name, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func ready(t *testing.T, s *pgkv.Store) error {
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	return s.Ready(ctx)
}

// opened returns a store that is ready.
func opened(t *testing.T, url, name string) *pgkv.Store {
	t.Helper()
	s := open(t, url, name)
	if err := ready(t, s); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestConformance runs the conformance tests of all stores.
func TestConformance(t *testing.T) {
	load.Parallel(t, load.Server)
	p := server.StartPostgres(t, "", durable...)
	clustertest.Run(t, func(t *testing.T) cluster.Store { return opened(t, urlOf(p), `te"st's`) })
}

func execute(t *testing.T, url, sql string) {
	t.Helper()
	conn, err := pg.Connect(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer pg.Close(conn)
	if err := pg.Execute(t.Context(), conn, sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// TestUnfitTables checks that a table or a server with unsafe settings for claims is refused.
func TestUnfitTables(t *testing.T) {
	load.Parallel(t, load.Server)
	p := server.StartPostgres(t, "", durable...)
	for _, c := range []struct{ name, change, wants string }{
		{"unlogged", `ALTER TABLE "conduit-unlogged" SET UNLOGGED`, "must be logged"},
		{"columns", `ALTER TABLE "conduit-columns" ALTER COLUMN revision TYPE numeric`, "must have the columns"},
		{"view", `ALTER TABLE "conduit-view" RENAME TO base; CREATE VIEW "conduit-view" AS SELECT * FROM base`,
			"must be a table"},
		{"trigger", `CREATE TRIGGER t BEFORE UPDATE ON "conduit-trigger" FOR EACH ROW EXECUTE FUNCTION ` +
			`suppress_redundant_updates_trigger()`, "neither row security nor triggers"},
		{"key", `ALTER TABLE "conduit-key" DROP CONSTRAINT "conduit-key_pkey"`, "must have the primary key"},
		{"incarnation", `DELETE FROM "conduit-incarnation"`, "has no row"},
		{"server", `ALTER ROLE postgres SET synchronous_commit = off`, "synchronous_commit is off"},
	} {
		t.Run(c.name, func(t *testing.T) {
			opened(t, urlOf(p), c.name)
			execute(t, urlOf(p), c.change)
			err := ready(t, open(t, urlOf(p), c.name))
			if unfit := new(pgkv.UnfitError); !errors.As(err, &unfit) || !strings.Contains(err.Error(), c.wants) {
				t.Errorf("the table is accepted, or refused without %q: %v", c.wants, err)
			}
		})
	}
}

// TestClaimsAreLinearizable writes the same claims from three members while their links stall and are cut, their
// sessions are ended, and the server is killed: the history is linearizable.
func TestClaimsAreLinearizable(t *testing.T) {
	load.Parallel(t, load.Server)
	p := server.StartPostgres(t, "", durable...)
	proxies, stores := make([]*network.Proxy, 3), make([]cluster.Store, 3)
	for i := range stores {
		proxies[i] = network.NewProxy(t, p.Addr)
		stores[i] = opened(t, "postgres://postgres@"+proxies[i].Addr()+"/postgres?sslmode=disable", "test")
	}
	w := claims.NewWriters(t, stores...)
	w.Break(proxies)
	execute(t, urlOf(p), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND "+
		"backend_type = 'client backend'")
	w.More()
	p.Kill()
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.More()
	w.Check()
}

// TestPromotion promotes a standby that lacks the last writes: the store detects that the writes with their revisions
// are lost, and gives none of these revisions to a later write.
func TestPromotion(t *testing.T) {
	load.Parallel(t, 2*load.Server)
	p := server.StartPostgres(t, server.PostgresWith(t, "pg_basebackup"), durable...)
	before := put(t, opened(t, urlOf(p), "lag"), "p.A", "kept", 0)
	standby := p.Standby(t)
	s := opened(t, "postgres://postgres@"+p.Addr+","+standby.Addr+
		"/postgres?sslmode=disable&target_session_attrs=read-write", "lag")
	standby.Kill()
	lost := before
	for range 100 {
		lost = put(t, s, "p.A", "lost", lost.Revision)
	}
	p.Kill()
	if err := standby.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	execute(t, urlOf(standby), "SELECT pg_promote()")
	var o protocol.Outcome
	wait.For(t, "the standby to answer", func() bool {
		o = put(t, s, "p.A", "later", lost.Revision)
		return o.Result != protocol.Unknown
	})
	if o.Result != protocol.Conflict || o.Revision != before.Revision {
		t.Errorf("a write after one that was lost: %+v, want a conflict with revision %d", o, before.Revision)
	}
	after := put(t, s, "p.A", "other", before.Revision)
	if after.Result != protocol.Applied || after.Revision <= lost.Revision {
		t.Errorf("a write of another member: %+v, want it applied after %d, which was lost", after, lost.Revision)
	}
	if o := put(t, s, "p.A", "later", lost.Revision); o.Result != protocol.Conflict || o.Revision != after.Revision {
		t.Errorf("a write after one that was lost: %+v, want a conflict with revision %d", o, after.Revision)
	}
}

// observed is a running watch.
type observed struct {
	t     *testing.T
	shown chan protocol.Entry
	ended chan error
}

// observe watches a store, and returns once the watch has shown all entries.
func observe(t *testing.T, s *pgkv.Store) *observed {
	o := &observed{t, make(chan protocol.Entry, 100), make(chan error, 1)}
	synced := make(chan struct{})
	go func() {
		o.ended <- s.Watch(t.Context(), func(e protocol.Entry) { o.shown <- e }, func() { close(synced) })
	}()
	select {
	case <-synced:
	case err := <-o.ended:
		t.Fatal(err)
	}
	return o
}

// until waits until the watch shows a revision.
func (o *observed) until(revision uint64) {
	o.t.Helper()
	for limit := time.After(wait.Limit); ; {
		select {
		case e := <-o.shown:
			if e.Revision == revision {
				return
			}
		case err := <-o.ended:
			o.t.Fatal(err)
		case <-limit:
			o.t.Fatalf("the watch does not show revision %d", revision)
		}
	}
}

func put(t *testing.T, s *pgkv.Store, key, state string, revision uint64) protocol.Outcome {
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	return s.Write(ctx, protocol.Write{Entry: protocol.Entry{Key: key, Value: []byte("{}"), State: []byte(state),
		Revision: revision}})
}

// TestLateCommit commits a write with a smaller revision after a write with a greater revision.
func TestLateCommit(t *testing.T) {
	load.Parallel(t, load.Server)
	p := server.StartPostgres(t, "", durable...)
	s := opened(t, urlOf(p), "late")
	early, late := put(t, s, "p.EARLY", "", 0), put(t, s, "p.LATE", "", 0)
	w := observe(t, s)
	w.until(late.Revision)
	conn, err := pg.Connect(t.Context(), urlOf(p), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer pg.Close(conn)
	if err := pg.Execute(t.Context(), conn, "BEGIN"); err != nil {
		t.Fatal(err)
	}
	row, err := pg.Row(t.Context(), conn,
		`UPDATE "conduit-late" SET revision = revision + 1, xid = DEFAULT WHERE key = 'p.LATE' RETURNING revision`)
	if err != nil {
		t.Fatal(err)
	}
	first, err := strconv.ParseUint(row[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	second := put(t, s, "p.EARLY", "other", early.Revision)
	w.until(second.Revision)
	if err := pg.Execute(t.Context(), conn, "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if first >= second.Revision {
		t.Fatalf("revision %d is not before %d", first, second.Revision)
	}
	w.until(first)
}

// TestMadeAgain replaces the table while a member uses it: the member neither reads nor writes the new table.
func TestMadeAgain(t *testing.T) {
	load.Parallel(t, load.Server)
	p := server.StartPostgres(t, "", durable...)
	s := opened(t, urlOf(p), "again")
	before := put(t, s, "p.A", "", 0)
	w := observe(t, s)
	execute(t, urlOf(p), `DROP TABLE "conduit-again"`)
	other := opened(t, urlOf(p), "again")
	if after := put(t, other, "p.A", "", 0); after.Result != protocol.Applied || after.Revision <= before.Revision {
		t.Errorf("revision %+v follows %d of the table before", after, before.Revision)
	}
	for _, revision := range []uint64{0, before.Revision} {
		if o := put(t, s, "p.B", "", revision); o.Result != protocol.Unknown {
			t.Errorf("a write at revision %d to another table: %+v", revision, o)
		}
	}
	if e, err := s.Read(t.Context(), "p.A"); err == nil {
		t.Errorf("another table is read: %+v", e)
	}
	// The watch may notice the missing table before the new one exists.
	if err := <-w.ended; err == nil {
		t.Error("the watch outlives its table")
	}
	err := s.Watch(t.Context(), func(e protocol.Entry) { t.Errorf("another table shows %+v", e) }, func() {})
	if err == nil || !strings.Contains(err.Error(), "was recreated") {
		t.Errorf("another table is watched: %v", err)
	}
}

// TestRestart kills the server: acknowledged writes survive, and sessions are opened again.
func TestRestart(t *testing.T) {
	load.Parallel(t, load.Server)
	p := server.StartPostgres(t, "", durable...)
	s := opened(t, urlOf(p), "restart")
	before := put(t, s, "p.A", "state", 0)
	w := observe(t, s)
	p.Kill()
	if o := put(t, s, "p.A", "later", before.Revision); o.Result != protocol.Unknown {
		t.Errorf("a write without a server: %+v", o)
	}
	if err := <-w.ended; err == nil {
		t.Error("the watch outlives the server")
	}
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e, err := s.Read(t.Context(), "p.A"); err != nil || string(e.State) != "state" || e.Revision != before.Revision {
		t.Errorf("after a restart there is %+v, %v", e, err)
	}
	if o := put(t, s, "p.A", "later", before.Revision); o.Result != protocol.Applied || o.Revision <= before.Revision {
		t.Errorf("a write after a restart: %+v, want it applied after %d", o, before.Revision)
	}
}
