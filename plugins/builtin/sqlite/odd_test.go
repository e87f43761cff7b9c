package sqlite

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestOddFiles checks that devices, FIFOs and directories are refused, without waiting for them.
func TestOddFiles(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/dev/zero", "/dev/null", fifo, t.TempDir()} {
		s := databaseSettings{Path: path}
		for _, create := range []bool{false, true} {
			if db, err := s.Open(t.Context(), create); err == nil ||
				!strings.Contains(err.Error(), "not a regular file") {
				t.Errorf("%s, create %t: %v, %v", path, create, db, err)
			}
		}
	}
}
