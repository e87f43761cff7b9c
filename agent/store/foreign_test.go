package store_test

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/store"
)

// TestForeignState checks that the state of Conduit is recognized and left unchanged, to the byte.
func TestForeignState(t *testing.T) {
	for name, tt := range map[string]struct {
		make func(t *testing.T, path string)
		want string
	}{
		"sqlite": {makeForeign, "conduit migrate --from "},
		"sqlite in dir": {func(t *testing.T, path string) {
			mkdir(t, path)
			makeForeign(t, filepath.Join(path, "conduit.db"))
		}, "conduit.db/conduit.db"},
		"badger": {func(t *testing.T, path string) {
			mkdir(t, path)
			if err := os.WriteFile(filepath.Join(path, "MANIFEST"), []byte("Bdgr"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "conduit migrate --from http://localhost:8080 --files DIR"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "conduit.db")
			tt.make(t, path)
			before := contents(t, dir)
			_, err := store.Open(t.Context(), path)
			if !errors.Is(err, store.ErrForeign) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v", err)
			}
			after := contents(t, dir)
			delete(after, path+".lock") // its presence means nothing
			if len(after) != len(before) {
				t.Errorf("files were %d, are %d", len(before), len(after))
			}
			for name, text := range before {
				if after[name] != text {
					t.Errorf("%s is changed", name)
				}
			}
		})
	}
	// Any other database is not recognized as Conduit's.
	path := filepath.Join(t.TempDir(), "conduit.db")
	execute(t, path, "CREATE TABLE other (x)")
	if _, err := store.Open(t.Context(), path); err == nil || errors.Is(err, store.ErrForeign) {
		t.Errorf("got %v", err)
	}
}

func makeForeign(t *testing.T, path string) {
	execute(t, path, "CREATE TABLE conduit_kv_store (key TEXT PRIMARY KEY, value BLOB)")
}

func execute(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite3", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t *testing.T, path string) {
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		all[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
