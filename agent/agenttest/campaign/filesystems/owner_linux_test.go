// Package filesystems_test tests the files of an agent on file systems that it mounts, and the owner of restored files.
// It needs Linux and root.
package filesystems_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/conduit-agent/conduit/agent/deadletter"
	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/agent/maintenance"
	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// Files that root restores belong to the user of the service, both over existing state and without any.
func TestRestoredFilesBelongToTheService(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("only root can give files to others")
	}
	const service = 65532
	dir, backup := t.TempDir(), filepath.Join(t.TempDir(), "backup.db")
	path := filepath.Join(dir, "conduit.db")
	populate(t, path)
	_, err := maintenance.Backup(t.Context(), path, backup)
	must(t, err)
	must(t, os.Chown(dir, service, service))
	for _, file := range files(t, dir) {
		must(t, os.Lchown(file, service, service))
	}
	for _, ending := range []string{".replaced", ".again"} {
		_, err := maintenance.Restore(t.Context(), backup, path, ending)
		must(t, err)
		all := files(t, dir)
		if len(all) < 4 {
			t.Errorf("there are only %v", all)
		}
		for _, file := range all {
			info, err := os.Lstat(file)
			must(t, err)
			if owner := info.Sys().(*syscall.Stat_t); owner.Uid != service || owner.Gid != service {
				t.Errorf("%s belongs to %d:%d", file, owner.Uid, owner.Gid)
			}
			must(t, os.Remove(file)) // for the second restore
		}
	}
}

// populate creates a store with a position, and dead letters.
func populate(t *testing.T, path string) {
	t.Helper()
	db, err := store.Open(t.Context(), path)
	must(t, err)
	epoch, err := db.BeginRun(t.Context(), "p")
	must(t, err)
	must(t, db.SaveCheckpoints(t.Context(), []spec.Checkpoint{
		{ConnectorID: "p:in", PipelineID: "p", Plugin: "file", Position: record.Position("1"), Epoch: epoch,
			Sequence: 1}}))
	dead := &deadletter.Store{Path: deadletter.PathOf(path), Log: slog.New(slog.DiscardHandler)}
	must(t, dead.Keep(t.Context(), &spec.Declaration{Pipeline: spec.Pipeline{ID: "p"}},
		&engine.DeadLetter{SourceID: "p:in", RefusedBy: "p:out",
			Entry: "p:out", Err: errors.New("no"), Record: record.Record{Position: record.Position("1")}}))
	must(t, dead.Close())
	must(t, db.Close())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "*"))
	must(t, err)
	return all
}
