package maintenance_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/conduit-agent/conduit/agent/maintenance"
	"github.com/conduit-agent/conduit/plugins/plugintest/server"
)

// What root restores belongs to the user of the service, over the state of before and where there is none.
func TestRestoredFilesBelongToTheService(t *testing.T) {
	if os.Geteuid() != 0 {
		server.Missing(t, "only root can give files to others")
	}
	const service = 65532
	dir, backup := t.TempDir(), filepath.Join(t.TempDir(), "backup.db")
	path := filepath.Join(dir, "conduit.db")
	db, dead := open(t, path), openDead(t, path)
	save(t, db, begin(t, db), 1, "p:in")
	refuse(t, dead, 0, 3)
	must(t, dead.Close())
	must(t, db.Close())
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

func files(t *testing.T, dir string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "*"))
	must(t, err)
	return all
}
