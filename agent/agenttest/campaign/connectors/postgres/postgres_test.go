// Package postgres_test tests the connector postgres against real servers.
package postgres_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/builtin/postgres"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
)

var all = flag.Bool("all", false, "run with every PostgreSQL that is installed, not with the newest alone")

// dirs returns the program directories of the PostgreSQL versions to test.
func dirs(t *testing.T) []string {
	found := server.PostgresDirs(t)
	if !*all {
		found = found[:1]
	}
	return found
}

// world is a server with a separate database for each test.
type world struct {
	*testing.T
	server *server.Postgres
	db     string
}

var databases atomic.Int64

// in returns a world with a new database.
func in(t *testing.T, s *server.Postgres) *world {
	t.Helper()
	return &world{T: t, server: s, db: database(t, s)}
}

// database creates a database.
func database(t testing.TB, s *server.Postgres) string {
	t.Helper()
	name := fmt.Sprintf("test%d", databases.Add(1))
	run(t, s, "postgres", "CREATE DATABASE "+name)
	return name
}

// run runs statements.
func run(t testing.TB, s *server.Postgres, db, sql string) {
	t.Helper()
	c, err := pgconn.Connect(t.Context(), fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", s.Addr, db))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(t.Context()) }()
	if err := c.Exec(t.Context(), sql).Close(); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func (w *world) url() string {
	return fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", w.server.Addr, w.db)
}

func (w *world) connect() *pgconn.PgConn {
	w.Helper()
	c, err := pgconn.Connect(w.Context(), w.url())
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func (w *world) exec(sql string) {
	w.Helper()
	run(w, w.server, w.db, sql)
}

// query returns the rows of a query, columns joined by |.
func (w *world) query(sql string) string {
	w.Helper()
	c := w.connect()
	defer func() { _ = c.Close(w.Context()) }()
	r := c.ExecParams(w.Context(), sql, nil, nil, nil, nil).Read()
	if r.Err != nil {
		w.Fatalf("%s: %v", sql, r.Err)
	}
	var lines []string
	for _, row := range r.Rows {
		lines = append(lines, string(bytes.Join(row, []byte("|"))))
	}
	return strings.Join(lines, "\n")
}

// source is a running source.
type source struct{ *plugintest.Opened }

// settings returns the usual settings of a source, with a separate slot and publication for the test.
func (w *world) settings(tables string, more ...string) map[string]string {
	s := map[string]string{"url": w.url(), "tables": tables, "logrepl.slotName": w.db, "logrepl.publicationName": w.db,
		"heartbeat": "200ms"}
	for i := 0; i < len(more); i += 2 {
		s[more[i]] = more[i+1]
	}
	return s
}

func (w *world) newSource(id string) *source {
	return &source{plugintest.NewOpened(w, postgres.Connector(), id)}
}

// open opens a source and fails the test if it does not open.
func (w *world) open(settings map[string]string, pos record.Position) *source {
	w.Helper()
	s := w.newSource(w.db + ":source")
	if err := s.TryOpen(settings, pos); err != nil {
		w.Fatal(err)
	}
	return s
}

// streaming waits until a source with few rows has read them all, and the server has no more.
func (s *source) streaming() *source {
	s.Helper()
	wait.For(s, "the source has read all there is", func() bool {
		p := s.Progress()
		return p.Seconds != nil && *p.Seconds == 0
	})
	return s
}

// nothing checks that no record arrives for a while. A record would be followed by a marker row.
func (s *source) nothing(marker func()) {
	s.Helper()
	marker()
	got := s.Next(1)
	if op := got[0].Operation; op != record.OperationCreate || !strings.Contains(plugintest.Show(got)[0], "marker") {
		s.Errorf("got %s, want the marker", plugintest.Show(got)[0])
	}
}
