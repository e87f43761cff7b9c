package sqlite

import (
	"database/sql"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/plugintest/builtintest"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// TestChangesBeforeTheFirstRow writes a row after the triggers exist and before the first row is read. The source reads
// it as a row, in key order, and not as an earlier change.
func TestChangesBeforeTheFirstRow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file.db")
	db, err := sql.Open("sqlite3", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	builtintest.ExecSQL(t, db, "PRAGMA journal_mode = WAL; CREATE TABLE t (n INTEGER PRIMARY KEY); INSERT INTO t VALUES "+
		"(1), (2)")
	ctx := sdk.WithEnv(t.Context(), &sdk.Env{ConnectorID: "p:in"})
	s := &Source{}
	if err := s.Configure(ctx, map[string]string{"path": path, "tables": "t"}); err != nil {
		t.Fatal(err)
	}
	s.log, s.captured = sdk.Logger(ctx), s.settings.capture(ctx)
	if err := s.connect(ctx); err != nil {
		t.Fatal(err)
	}
	defer s.disconnect()
	builtintest.ExecSQL(t, db, "INSERT INTO t VALUES (3)")
	first, _, err := s.read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	builtintest.ExecSQL(t, db, "INSERT INTO t VALUES (4)")
	second, _, err := s.read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range append(first, second...) {
		want := record.OperationSnapshot
		if i == 3 {
			want = record.OperationCreate
		}
		key, _ := r.Key.Structured()
		if key["n"] != int64(i+1) || r.Operation != want {
			t.Errorf("record %d is %v of %v", i+1, r.Operation, key)
		}
	}
	if len(first) != 3 || len(second) != 1 {
		t.Errorf("%d records, then %d", len(first), len(second))
	}
}

// TestReplaceIsWarnedOf expects a warning about the tables from which REPLACE may delete rows unnoticed: once, and
// again when the tables change.
func TestReplaceIsWarnedOf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file.db")
	db, err := sql.Open("sqlite3", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	builtintest.ExecSQL(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, mail TEXT UNIQUE); CREATE TABLE plain (id TEXT "+
		"PRIMARY KEY); CREATE TABLE late (id INTEGER PRIMARY KEY, x)")
	var log strings.Builder
	ctx := sdk.WithEnv(t.Context(), &sdk.Env{ConnectorID: "p:in", Logger: slog.New(slog.NewTextHandler(&log, nil))})
	s := &Source{}
	if err := s.Configure(ctx, map[string]string{"path": path, "tables": "*"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`tables=[t]`, "", `tables="[late t]"`} {
		log.Reset()
		s.log, s.captured = sdk.Logger(ctx), s.settings.capture(ctx)
		if err := s.connect(ctx); err != nil {
			t.Fatal(err)
		}
		s.disconnect()
		if got := log.String(); strings.Contains(got, "recursive_triggers") != (want != "") ||
			!strings.Contains(got, want) {
			t.Errorf("the log has %q, want %q", got, want)
		}
		if want == "" {
			builtintest.ExecSQL(t, db, "CREATE UNIQUE INDEX i ON late (x)")
		}
	}
}
