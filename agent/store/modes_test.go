package store_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/store"
)

// TestWideModesAreTightened opens a store that other users could read, and one that they could not.
func TestWideModesAreTightened(t *testing.T) {
	path, ctx := filepath.Join(t.TempDir(), "conduit.db"), t.Context()
	var log bytes.Buffer
	opened := func() *store.DB {
		t.Helper()
		db, err := store.Open(ctx, path, store.WithLog(slog.New(slog.NewTextHandler(&log, nil))))
		must(t, err)
		return db
	}
	must(t, opened().Close())
	if log.Len() > 0 {
		t.Errorf("a new store is warned of: %s", &log)
	}
	for _, name := range []string{path, path + ".lock"} {
		must(t, os.Chmod(name, 0o644))
	}
	db := opened()
	defer db.Close()
	must(t, db.Apply(ctx, declare(pipeline("p"))))
	for _, name := range []string{path, path + ".lock", path + "-wal", path + "-shm"} {
		info, err := os.Stat(name)
		must(t, err)
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("%s has mode %v", name, mode)
		}
	}
	if got := log.String(); strings.Count(got, "others could open the store") != 2 ||
		!strings.Contains(got, "mode=-rw-r--r--") {
		t.Errorf("the log says %s", got)
	}
}
