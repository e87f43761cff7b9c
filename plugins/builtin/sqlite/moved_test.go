package sqlite

import (
	"database/sql"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/sqlsink"
	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// moving is a dialect that does something before each check whether the file is in place.
type moving struct {
	*dialect
	before func(check int)
	checks int
}

// InPlace implements sqlsink.Dialect.
func (m *moving) InPlace() error {
	m.checks++
	m.before(m.checks)
	return m.dialect.InPlace()
}

// A database that is removed or replaced while it is open, at any time until a batch is committed, loses no record that
// the destination counts as written later.
func TestMovedDatabase(t *testing.T) {
	const setup = "CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY)"
	for name, move := range map[string]func(path string) error{
		"removed": func(path string) error {
			for _, end := range []string{"-wal", "-shm"} {
				if err := os.Remove(path + end); err != nil {
					return err
				}
			}
			return os.Remove(path)
		},
		"renamed": func(path string) error { return os.Rename(filepath.Dir(path), filepath.Dir(path)+".old") },
		"replaced": func(path string) error {
			db, err := sql.Open("sqlite3", path+".new")
			if err == nil {
				_, err = db.Exec("CREATE TABLE t (id INTEGER PRIMARY KEY, more TEXT)")
			}
			if err == nil {
				err = db.Close()
			}
			for _, end := range []string{"-wal", "-shm"} {
				if err == nil {
					err = os.Remove(path + end)
				}
			}
			if err == nil {
				err = os.Rename(path+".new", path)
			}
			return err
		},
	} {
		// The second Write checks before its transaction and after it.
		for when, at := range map[string]int{"before the transaction": 3, "before its end is reported": 4} {
			for _, positions := range []string{"", "positions"} {
				t.Run(name+" "+when+" "+positions, func(t *testing.T) {
					dir := filepath.Join(t.TempDir(), "data")
					path := filepath.Join(dir, "db")
					mkdir := func() {
						if err := os.MkdirAll(dir, 0o700); err != nil {
							t.Fatal(err)
						}
					}
					mkdir()
					s := destinationSettings{}
					given := sdk.Described(destinationSettings{}, "").ApplyDefaults(map[string]string{"path": path, "table": "t",
						"setup": setup, "positionTable": positions})
					if err := sdk.Decode(given, &s); err != nil {
						t.Fatal(err)
					}
					m := &moving{dialect: &dialect{settings: s}, before: func(check int) {
						if check != at {
							return
						}
						if err := move(path); err != nil {
							t.Error(err)
						}
						mkdir()
					}}
					ctx := sdk.WithEnv(t.Context(), &sdk.Env{ConnectorID: "p:d", Logger: slog.New(slog.DiscardHandler)})
					var d sqlsink.Destination
					db := &sqlsink.DB{Dialect: m, Positions: s.PositionTable}
					if err := d.Use(ctx, db, s.tableSettings); err != nil {
						t.Fatal(err)
					}
					if err := d.Open(ctx); err != nil {
						t.Fatal(err)
					}
					for i := range 3 {
						row := plugintest.Row(i, record.OperationCreate, map[string]any{"id": i}, map[string]any{"id": i})
						if n, err := d.Write(ctx, []record.Record{row}); n != 1 || err != nil {
							t.Fatalf("wrote %d records: %v", n, err)
						}
					}
					if err := d.Teardown(ctx); err != nil {
						t.Fatal(err)
					}
					now, err := sql.Open("sqlite3", path)
					if err != nil {
						t.Fatal(err)
					}
					defer now.Close()
					var count, least int
					if err := now.QueryRow("SELECT count(*), min(id) FROM t").Scan(&count, &least); err != nil {
						t.Fatal(err)
					}
					if count != 2 || least != 1 {
						t.Errorf("the file at the path has %d rows from %d, want those of the last 2 calls", count, least)
					}
				})
			}
		}
	}
}
