package file_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/file"
)

// TestWithoutZstd uses Zstandard in a binary that does not contain it.
func TestWithoutZstd(t *testing.T) {
	const remedy = "this binary has no Zstandard; the full binary, conduit, has"
	c := file.Connector(nil)
	configure := map[string]func(context.Context, map[string]string) error{
		"compression":        c.NewSource().Configure,
		"rotate.compression": c.NewDestination().Configure,
	}
	for setting, configure := range configure {
		for _, compression := range []string{"none", "gzip", "zstd"} {
			settings := []string{setting, compression}
			if setting == "rotate.compression" {
				settings = append(settings, "rotate.size", "1000")
			}
			err := configure(t.Context(), settingsOf(filepath.Join(t.TempDir(), "a.log"), settings))
			if compression != "zstd" && err != nil {
				t.Errorf("%s: %s: %v", setting, compression, err)
			}
			if compression == "zstd" && (err == nil || !strings.Contains(err.Error(), remedy) ||
				!strings.Contains(err.Error(), `"`+setting+`"`)) {
				t.Errorf("%s: %s: error %v", setting, compression, err)
			}
		}
	}
	path := filepath.Join(t.TempDir(), "a.log.zst")
	pack(t, path, "one\n")
	s := c.NewSource()
	if err := s.Configure(t.Context(), settingsOf(path, nil)); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Teardown(context.WithoutCancel(t.Context())) }()
	err := s.Open(t.Context(), nil)
	if err == nil {
		_, err = s.Read(t.Context())
	}
	if err == nil || !strings.Contains(err.Error(), remedy) || !strings.Contains(err.Error(), path) {
		t.Errorf("a compressed file: error %v", err)
	}
}
