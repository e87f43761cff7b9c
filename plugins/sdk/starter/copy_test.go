package starter_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"

	"github.com/conduit-agent/conduit/plugins/sdk/starter"
)

const repository = "../../.."

// The copy equals the repository: all files of the packages, with the same modules.
func TestCopyIsCurrent(t *testing.T) {
	dir := t.TempDir()
	if err := starter.WriteSDK(dir); err != nil {
		t.Fatal(err)
	}
	if err := starter.WriteSDK(dir); !errors.Is(err, fs.ErrExist) {
		t.Errorf("written twice: %v", err)
	}
	want, got := requirements(t, repository), requirements(t, dir)
	for name, version := range got {
		if want[name] != version {
			t.Errorf("%s %s is required, not %s: run just generate", name, version, want[name])
		}
	}
	packages := 0
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if below, _ := filepath.Rel(dir, name); sameSources(t, filepath.Join(repository, below), name) > 0 {
			packages++
		}
		return nil
	})
	if err != nil || packages < 20 || len(got) < 20 {
		t.Errorf("%d packages, %d modules, %v", packages, len(got), err)
	}
}

// sameSources compares the sources of a package with their copies, and returns their number.
func sameSources(t *testing.T, from, dir string) (count int) {
	t.Helper()
	copies, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(copies) == 0 {
		return 0
	}
	sources, err := filepath.Glob(filepath.Join(from, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range sources {
		want, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(source, "_test.go") || bytes.HasPrefix(want, []byte("//go:build ignore")) {
			continue
		}
		count++
		if got, err := os.ReadFile(filepath.Join(dir, filepath.Base(source))); err != nil || !bytes.Equal(got, want) {
			t.Errorf("the copy of %s is another: run just generate (%v)", source, err)
		}
	}
	if count != len(copies) {
		t.Errorf("%s has %d files, the copy %d: run just generate", from, count, len(copies))
	}
	return count
}

func requirements(t *testing.T, dir string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := modfile.Parse("go.mod", text, nil)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, r := range f.Require {
		all[r.Mod.Path] = r.Mod.Version
	}
	return all
}

// An unusable archive is refused before anything is written.
func TestWrongModules(t *testing.T) {
	here := t.TempDir()
	for name, content := range map[string]string{"text": "modules", "other": "(\xb5/\xfd\x00"} {
		archive, dir := filepath.Join(here, name), filepath.Join(here, "of-"+name)
		if err := os.WriteFile(archive, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		err := starter.Plugin{Kind: starter.Connector, Name: "mine", Version: "v0.0.0", Modules: archive}.Write(dir)
		if !errors.Is(err, starter.ErrModules) || !strings.Contains(err.Error(), path.Join(here, name)) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the directory was made: %v", name, err)
		}
	}
}
