package tools_test

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/cmd/conduit/tools"
)

// TestExample checks that the example equals the generated files.
func TestExample(t *testing.T) {
	files, err := tools.Plugin{Kind: tools.ConnectorPlugin, Name: "example", Version: "v0.0.0"}.Files()
	if err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(files, func(name string, _ []byte) bool {
		return strings.HasPrefix(name, "sdk/") || name == "go.mod" || name == "go.sum" // it is in this module
	})
	if len(files) != 5 {
		t.Errorf("%d files, want 5", len(files))
	}
	for name, want := range files {
		path := filepath.Join(repository, "plugins/example", name)
		if *update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the template says (%v); go test -update writes it", path, err)
		}
	}
}

func TestNothingIsOverwritten(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "source.go"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (tools.Plugin{Kind: tools.ConnectorPlugin, Name: "x"}).Write(dir); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("%d files, want 1", len(left))
	}
}
