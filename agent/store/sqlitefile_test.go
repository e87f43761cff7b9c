package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/conduit-agent/conduit/agent/sqlitefile"
)

// TestSQLiteFileOnAnOwnDisk checks that a disk of this machine is not a network file system, and has room.
func TestSQLiteFileOnAnOwnDisk(t *testing.T) {
	dir := t.TempDir()
	if err := sqlitefile.CheckNetwork(filepath.Join(dir, "not", "yet", "conduit.db")); err != nil {
		t.Errorf("it is taken for a network: %v", err)
	}
	if err := sqlitefile.Room(filepath.Join(dir, "conduit.db")); err != nil {
		t.Errorf("it has no room: %v", err)
	}
}

// TestSQLiteFileWithALogIsNotPlaced checks that a new file that lacks the data in its log is not put in place.
func TestSQLiteFileWithALogIsNotPlaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	draft := path + ".new"
	for _, name := range []string{draft, draft + "-wal", draft + "-shm"} {
		if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := sqlitefile.Place(draft, path); !errors.Is(err, sqlitefile.ErrIO) {
		t.Errorf("with a log: %v", err)
	}
	if err := os.Remove(draft + "-wal"); err != nil {
		t.Fatal(err)
	}
	if err := sqlitefile.Place(draft, path); err != nil {
		t.Errorf("without: %v", err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 || entries[0].Name() != "store" {
		t.Errorf("there are %v, %v", entries, err)
	}
}
