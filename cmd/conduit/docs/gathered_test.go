//go:build !minimal

package docs

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// What is served is what the repository has.
func TestGatheredPagesAreCurrent(t *testing.T) {
	files, err := openGathered()
	if err != nil {
		t.Fatal(err)
	}
	if len(files.File) < len(written) {
		t.Errorf("%d pages are gathered", len(files.File))
	}
	for _, f := range files.File {
		got, err := readPage(f.Name)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join("../../..", f.Name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s has changed: run just generate", f.Name)
		}
	}
}
