package reference

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The opened file is checked, not the file to which the name referred before.
func TestFilesAreCheckedOpen(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	secret, link := filepath.Join(dir, "secret"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(secret, []byte("secret"), 0o600), os.Symlink(secret, link)); err != nil {
		t.Fatal(err)
	}
	byName := func(path string) error { // as before the link was made
		if path != link {
			return errors.New("not allowed")
		}
		return nil
	}
	if text, err := readAllowed(link, byName); err == nil || !strings.Contains(err.Error(), "not allowed") ||
		text != "" {
		t.Errorf("got %q, %v", text, err)
	}
}
