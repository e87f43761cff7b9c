package tools_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/cmd/conduit/tools"
)

// A connector in Python is written with its name, ready to run, and with every message that the protocol has.
func TestWritePython(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lines")
	if err := tools.WritePython(dir, "lines"); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "connector.py")
	if info, err := os.Stat(program); err != nil || info.Mode().Perm()&0o111 != 0o111 {
		t.Errorf("%s cannot be executed: %v, %v", program, info, err)
	}
	example := read(t, repository+"/plugins/example/python/connector.py")
	if got := read(t, program); !bytes.Equal(got, bytes.ReplaceAll(example, []byte("python-lines"), []byte("lines"))) ||
		!bytes.Contains(got, []byte(`"lines"`)) {
		t.Error("the connector is not the example with another name")
	}
	readme := string(read(t, filepath.Join(dir, "README.md")))
	for _, link := range regexp.MustCompile(`\]\(([^)]*)\)`).FindAllStringSubmatch(readme, -1) {
		if _, err := os.Stat(filepath.Join(dir, link[1])); err != nil && !strings.HasPrefix(link[1], "https://") {
			t.Errorf("a link of the README leads nowhere: %v", err)
		}
	}
	messages := 0
	err := fs.WalkDir(os.DirFS(repository+"/plugins/wire/proto"), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(name) == ".proto" {
			messages++
			if !bytes.Equal(read(t, filepath.Join(dir, "proto", name)), read(t, repository+"/plugins/wire/proto/"+name)) {
				t.Errorf("%s differs", name)
			}
		}
		return err
	})
	if err != nil || messages == 0 {
		t.Errorf("compared %d files: %v", messages, err)
	}
	if err := tools.WritePython(dir, "lines"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("written twice: %v", err)
	}
}
