package mysql_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	_ "github.com/go-sql-driver/mysql"

	"github.com/conduit-agent/conduit/plugins/builtin/mysql"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/server"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// world is a server with a database of its own for each test.
type world struct {
	*testing.T
	addr, name string
	db         *sql.DB
}

var databases atomic.Int64

// in returns a world with a database that has what setup makes.
func in(t *testing.T, s *server.MariaDB, setup string) *world {
	t.Helper()
	w := &world{T: t, addr: s.Addr, name: fmt.Sprintf("test%d", databases.Add(1))}
	admin := w.connect("")
	if _, err := admin.ExecContext(t.Context(), "CREATE DATABASE "+w.name+" CHARACTER SET utf8mb4"); err != nil {
		t.Fatal(err)
	}
	w.db = w.connect(w.name)
	w.exec(setup)
	return w
}

func (w *world) connect(database string) *sql.DB {
	w.Helper()
	db, err := sql.Open("mysql", "root@tcp("+w.addr+")/"+database+"?multiStatements=true")
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = db.Close() })
	return db
}

func (w *world) exec(text string) {
	w.Helper()
	if _, err := w.db.ExecContext(w.Context(), text); err != nil {
		w.Fatalf("%s: %v", text, err)
	}
}

// query returns the rows of a query, columns joined by |.
func (w *world) query(text string) string {
	w.Helper()
	rows, err := w.db.QueryContext(w.Context(), text)
	if err != nil {
		w.Fatalf("%s: %v", text, err)
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil {
		w.Fatal(err)
	}
	var lines []string
	for rows.Next() {
		values, pointers := make([][]byte, len(columns)), make([]any, len(columns))
		for i := range values {
			pointers[i] = &values[i]
		}
		if err := rows.Scan(pointers...); err != nil {
			w.Fatal(err)
		}
		lines = append(lines, string(bytes.Join(values, []byte("|"))))
	}
	if err := rows.Err(); err != nil {
		w.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

func (w *world) settings(more ...string) map[string]string {
	s := map[string]string{"address": w.addr, "database": w.name, "user": "root"}
	for i := 0; i < len(more); i += 2 {
		s[more[i]] = more[i+1]
	}
	return s
}

func (w *world) destination(more ...string) (sdk.Destination, context.Context) {
	w.Helper()
	return plugintest.OpenDestination(w, mysql.Connector(), "p:destination", w.settings(more...))
}

func (w *world) write(records []record.Record, more ...string) {
	w.Helper()
	d, ctx := w.destination(more...)
	if n, err := d.Write(ctx, records); n != len(records) || err != nil {
		w.Fatalf("wrote %d of %d: %v", n, len(records), err)
	}
}
