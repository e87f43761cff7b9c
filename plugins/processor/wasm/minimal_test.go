//go:build minimal

package wasm_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/processor/wasm"
)

func TestMinimal(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.wasm"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := wasm.New(wasm.Options{Dir: dir})
	m.Rescan(t.Context())
	if p := m.Problems(); len(p) != 1 || !strings.Contains(p[0].Reason, "this build has no WebAssembly") || len(m.Plugins()) != 0 {
		t.Errorf("problems are %+v", p)
	}
}
