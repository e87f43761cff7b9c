package sqlitefile_test

import (
	"path/filepath"
	"testing"

	"github.com/conduit-agent/conduit/agent/sqlitefile"
)

// A disk of this machine is no network, and has room.
func TestOwnDisk(t *testing.T) {
	dir := t.TempDir()
	if err := sqlitefile.RefuseNetwork(filepath.Join(dir, "not", "yet", "conduit.db")); err != nil {
		t.Errorf("it is taken for a network: %v", err)
	}
	if err := sqlitefile.Room(filepath.Join(dir, "conduit.db")); err != nil {
		t.Errorf("it has no room: %v", err)
	}
}
