package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pg"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

func urlOf(addr string) string {
	return fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", addr)
}

// TestGuard lets guarded sessions wait for slow answers, and for answers that never arrive.
func TestGuard(t *testing.T) {
	load.Parallel(t, load.Server)
	p := server.StartPostgres(t, "")
	const silence = 2 * time.Second
	for _, c := range []struct {
		name string
		test func(*guarded)
	}{
		{"an answer that takes long", slowAnswer},
		{"a lost question", lostQuestion},
		{"a lost answer", lostReply},
		{"lost rows", lostRows},
		{"a canceled wait", canceledWait},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			observer, err := pg.Connect(t.Context(), urlOf(p.Addr), nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { pg.Close(observer) })
			proxy := network.NewProxy(t, p.Addr)
			conn, err := pg.ConnectGuarded(t.Context(), urlOf(proxy.Addr()), silence, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { pg.Close(conn) })
			c.test(&guarded{t, proxy, conn, observer, silence})
		})
	}
}

type guarded struct {
	*testing.T
	proxy    *network.Proxy
	conn     *pgconn.PgConn
	observer *pgconn.PgConn // not guarded, and bypasses the proxy
	silence  time.Duration
}

// query runs a query in the guarded session.
func (g *guarded) query(sql string) error {
	_, err := pg.Rows(g.Context(), g.conn, sql)
	return err
}

// state returns the event that the guarded session waits for, "-" if it waits for none, and "ended" if the session does
// not exist.
func (g *guarded) state() string {
	r, err := pg.Row(g.Context(), g.observer, "SELECT coalesce(wait_event, '-') FROM pg_stat_activity WHERE pid = $1",
		fmt.Sprint(g.conn.PID()))
	if err != nil {
		g.Fatal(err)
	}
	if r == nil {
		return "ended"
	}
	return r[0]
}

// isGivenUp checks that err is the error of a half-open connection, and that its session ends.
func (g *guarded) isGivenUp(err error) {
	g.Helper()
	if err == nil || !strings.Contains(err.Error(), "half-open") || !pg.Transient(err) {
		g.Errorf("a half-open connection returns %v", err)
	}
	wait.For(g, "the session has ended", func() bool { return g.state() == "ended" })
}

// slowAnswer waits for a statement, however long it takes.
func slowAnswer(g *guarded) {
	if err := g.query(fmt.Sprintf("SELECT pg_sleep(%f)", 4*g.silence.Seconds())); err != nil {
		g.Error(err)
	}
}

// lostQuestion lets the server wait in a transaction with a lock, which is released.
func lostQuestion(g *guarded) {
	for _, sql := range []string{"CREATE TABLE held (n int)", "BEGIN; LOCK TABLE held"} {
		if err := pg.Execute(g.Context(), g.conn, sql); err != nil {
			g.Fatal(err)
		}
	}
	g.proxy.Blackhole()
	g.isGivenUp(g.query("SELECT 1"))
	if err := pg.Execute(g.Context(), g.observer, "SET lock_timeout = '10s'; DROP TABLE held"); err != nil {
		g.Errorf("what the session locked stays locked: %v", err)
	}
}

// lostReply loses the connection while the server works.
func lostReply(g *guarded) {
	done := make(chan error, 1)
	go func() { done <- g.query(fmt.Sprintf("SELECT pg_sleep(%f)", 2*g.silence.Seconds())) }()
	wait.For(g, "the server works", func() bool { return g.state() == "PgSleep" })
	g.proxy.Blackhole()
	g.isGivenUp(<-done)
}

// lostRows loses the connection while rows arrive. The server can send no more rows, and the proxy drops those that it
// has sent.
func lostRows(g *guarded) {
	g.proxy.Hold(true)
	done := make(chan error, 1)
	go func() { done <- g.query("SELECT repeat('x', 1000) FROM generate_series(1, 100000)") }()
	wait.For(g, "the query is under way", func() bool { return g.proxy.Holds() > 0 })
	g.proxy.Blackhole()
	g.proxy.Hold(false)
	g.isGivenUp(<-done)
}

// canceledWait cancels a query while the guard queries its state on the server, which does not answer.
func canceledWait(g *guarded) {
	ctx, cancel := context.WithCancel(g.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := pg.Rows(ctx, g.conn, "SELECT pg_sleep(3600)")
		done <- err
	}()
	wait.For(g, "the server works", func() bool { return g.state() == "PgSleep" })
	g.proxy.Hold(true)
	wait.For(g, "the server is asked", func() bool { return g.proxy.Holds() > 0 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		g.Errorf("a query that was canceled returns %v", err)
	}
}
