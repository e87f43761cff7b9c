//go:build minimal

package file_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/file"
)

// A build without Zstandard refuses settings that need it, and never reads compressed bytes as lines.
func TestMinimal(t *testing.T) {
	const absent = "this build has no zstd"
	path := filepath.Join(t.TempDir(), "x.log.zst")
	s, d := &file.Source{}, &file.Destination{}
	if err := s.Configure(t.Context(), map[string]string{"path": path, "compression": "zstd"}); err == nil || !strings.Contains(err.Error(), absent) {
		t.Errorf("the source: %v", err)
	}
	settings := map[string]string{"path": path, "rotate.size": "10", "rotate.compression": "zstd"}
	if err := d.Configure(t.Context(), settings); err == nil || !strings.Contains(err.Error(), absent) {
		t.Errorf("the destination: %v", err)
	}
	write(t, path, "(\xb5\x2f\xfd\n")
	if err := s.Configure(t.Context(), map[string]string{"path": path}); err != nil {
		t.Fatal(err)
	}
	if err := s.Open(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Teardown(t.Context()) }()
	if records, err := s.Read(t.Context()); err == nil || !strings.Contains(err.Error(), absent) {
		t.Errorf("reading gives %d records and %v", len(records), err)
	}
}
