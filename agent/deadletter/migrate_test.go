package deadletter_test

import (
	"bytes"
	"database/sql"
	_ "embed"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/conduit-agent/conduit/agent/deadletter"
	"github.com/conduit-agent/conduit/agent/sqlitefile"
	"github.com/conduit-agent/conduit/spec"
)

//go:embed testdata/schema-1.sql
var firstSchema string

// firstVersion creates a store of the first version at path, with the dead letters 1 and 3 of the pipeline p.
func firstVersion(t testing.TB, path string) {
	t.Helper()
	db, err := sql.Open("sqlite3", path+"?_foreign_keys=on&_journal_mode=WAL")
	must(t, err)
	_, err = db.Exec(firstSchema + `;
		PRAGMA application_id = 0x636f6e65; PRAGMA user_version = 1;
		INSERT INTO letters SELECT value, 'p', CAST(value AS BLOB), value, value, 1, 'p:src', 'destination', 'p:dst',
			'{}', 3, 'd3', 'key-' || value, 'too long', 0, 0, 20 FROM json_each('[1, 2, 3]');
		INSERT INTO bodies SELECT id, CAST('{"position":"MQ==","operation":"create","metadata":null,"key":null,
			"payload":{"before":null,"after":{"n":' || id || '}}}' AS BLOB),
			'[{"by":"p:dst","error":"too long"}]' FROM letters;
		INSERT INTO totals VALUES ('p', 2, 40, 3, 0);
		DELETE FROM letters WHERE id = 2`)
	must(t, err)
	must(t, db.Close())
}

// TestFirstVersionIsMigrated opens a store of the first version: nothing is lost, ids ascend, and a copy is kept for a
// downgrade.
func TestFirstVersionIsMigrated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dead-letters")
	firstVersion(t, path)
	must(t, deadletter.Identify(path))
	before, err := os.ReadFile(path)
	must(t, err)
	s := open(t, path, deadletter.Limits{})
	if got := ids(t, s, "p", spec.DeadLetterFilter{}, 10); !slices.Equal(got, []int64{3, 1}) {
		t.Errorf("dead letters %v", got)
	}
	one, err := s.Get(t.Context(), "p", 3)
	must(t, err)
	if one.Key != "key-3" || one.Error != "too long" || len(one.Refusals) != 1 || !bytes.Contains(one.Record,
		[]byte(`"n":3`)) {
		t.Errorf("dead letter %+v", one)
	}
	keep(t, s, declared("p"), deadLetter(4, "p:dst", "no"))
	must(t, s.Flush(t.Context()))
	if got := ids(t, s, "p", spec.DeadLetterFilter{}, 10); !slices.Equal(got, []int64{4, 3, 1}) {
		t.Errorf("dead letters after another one: %v", got)
	}
	if _, err := s.Drop(t.Context(), "p", []int64{1}); err != nil {
		t.Error(err)
	}
	totals, err := s.Totals(t.Context())
	must(t, err)
	if len(totals) != 1 || totals[0].Count != 2 {
		t.Errorf("totals %+v", totals)
	}
	must(t, s.Close())

	copied := path + ".before-2"
	db, err := sql.Open("sqlite3", copied+"?mode=ro")
	must(t, err)
	var n, version int
	must(t, db.QueryRow(`SELECT count(*), (SELECT user_version FROM pragma_user_version) FROM letters`).Scan(&n,
		&version))
	must(t, db.Close())
	if n != 2 || version != 1 {
		t.Errorf("the copy has %d dead letters and version %d", n, version)
	}
	must(t, os.WriteFile(path, before, 0o600)) // a downgrade, and an upgrade again
	again := open(t, path, deadletter.Limits{})
	if got := ids(t, again, "p", spec.DeadLetterFilter{}, 10); !slices.Equal(got, []int64{3, 1}) {
		t.Errorf("dead letters after another migration: %v", got)
	}
}

// TestFirstVersionIsRepaired copies the rows of a store of the first version into a new one.
func TestFirstVersionIsRepaired(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dead-letters")
	firstVersion(t, path)
	repaired := path + ".repaired"
	must(t, deadletter.Create(t.Context(), repaired))
	read, err := sqlitefile.File{Path: path, Former: deadletter.Former}.Salvage(t.Context(), repaired, deadletter.Mend)
	must(t, err)
	for _, table := range read {
		if table.Rows == 0 || table.Error != "" {
			t.Errorf("%+v", table)
		}
	}
	if got := ids(t, open(t, repaired, deadletter.Limits{}), "p", spec.DeadLetterFilter{}, 10); !slices.Equal(got,
		[]int64{3, 1}) {
		t.Errorf("dead letters %v", got)
	}
}
