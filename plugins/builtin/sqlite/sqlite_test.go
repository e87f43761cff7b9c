package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/mattn/go-sqlite3"

	"github.com/conduit-agent/conduit/plugins/builtin/sqlite"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/builtintest"
	"github.com/conduit-agent/conduit/plugins/record"
)

// world is a database file with a program that writes to it.
type world struct {
	testing.TB
	path string
	db   *sql.DB
}

func newWorld(t testing.TB, setup string) *world {
	t.Helper()
	w := &world{TB: t, path: filepath.Join(t.TempDir(), "a file?%.db")}
	w.connect()
	w.exec("PRAGMA journal_mode = WAL;" + setup)
	return w
}

func (w *world) connect() {
	w.Helper()
	db, err := sql.Open("sqlite3", "file:"+strings.NewReplacer("?", "%3f", "%", "%25", " ", "%20").Replace(w.path)+
		"?_busy_timeout=10000")
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	w.db = db
}

func (w *world) exec(text string) { w.Helper(); builtintest.ExecSQL(w, w.db, text) }

func (w *world) query(text string) string { w.Helper(); return builtintest.QuerySQL(w, w.db, text) }

func (w *world) settings(tables string, more ...string) map[string]string {
	s := map[string]string{"path": w.path, "tables": tables, "poll": "5ms"}
	for i := 0; i < len(more); i += 2 {
		s[more[i]] = more[i+1]
	}
	return s
}

const sourceID = "p:source"

func (w *world) source() *plugintest.Opened {
	return plugintest.NewOpened(w, sqlite.Connector(), sourceID)
}

func (w *world) open(settings map[string]string, pos record.Position) *plugintest.Opened {
	w.Helper()
	s := w.source()
	if err := s.TryOpen(settings, pos); err != nil {
		w.Fatal(err)
	}
	return s
}
