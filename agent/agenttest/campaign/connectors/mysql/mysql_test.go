// Package mysql_test tests the connector mysql against real servers: MariaDB, and a MySQL.
package mysql_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync/atomic"
	"testing"

	_ "github.com/go-sql-driver/mysql"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/builtin/mysql"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/builtintest"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// world is a server with a separate database for each test.
type world struct {
	testing.TB
	addr, name string
	db         *sql.DB
}

var databases atomic.Int64

// in returns a world with a database created by setup.
func in(t testing.TB, s *server.MySQL, setup string) *world {
	t.Helper()
	w := &world{TB: t, addr: s.Addr, name: fmt.Sprintf("test%d", databases.Add(1))}
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

func (w *world) exec(text string) { w.Helper(); builtintest.ExecSQL(w, w.db, text) }

func (w *world) query(text string) string { w.Helper(); return builtintest.QuerySQL(w, w.db, text) }

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

func (w *world) sink() *builtintest.SQLDestination {
	return &builtintest.SQLDestination{DB: w.db, Open: func(more ...string) (sdk.Destination, context.Context) {
		return w.destination(more...)
	}}
}

func (w *world) write(records []record.Record, more ...string) {
	w.Helper()
	w.sink().Write(w, records, more...)
}
