package starter_test

import (
	"bytes"
	"errors"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/conduit-agent/conduit/plugins/sdk/starter"
	"github.com/conduit-agent/conduit/plugins/standalone"
)

var update = flag.Bool("update", false, "write the example anew")

// TestExample makes sure that the example is what a newcomer gets.
func TestExample(t *testing.T) {
	files, err := starter.Connector{Name: "example", Version: "v0.0.0"}.Files()
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 6 {
		t.Errorf("%d files, want 6", len(files))
	}
	delete(files, "go.mod") // the example is part of our module
	for name, want := range files {
		path := filepath.Join("..", "example", name)
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
	if err := (starter.Connector{Name: "x"}).Write(dir); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("%d files, want 1", len(left))
	}
}

// TestBuild builds the connector as a newcomer does, against this checkout.
func TestBuild(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "mine")
	if err := (starter.Connector{Name: "mine", Version: "v0.0.0", Replace: root}).Write(dir); err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-mod=mod", "-o", "mine", ".")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOWORK=off", "GOPROXY=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	specify(t, filepath.Join(dir, "mine"))
}

// specify checks that the executable says what it is.
func specify(t *testing.T, path string) {
	t.Helper()
	s, err := (&standalone.Client{Path: path}).Specify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.Name != "mine" || s.Source["interval"].Default != "1s" || s.Destination["path"].Description == "" {
		t.Errorf("got %+v", s)
	}
}
