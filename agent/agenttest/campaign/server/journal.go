package server

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Journal is a directory with a journal of systemd, which any user can write.
type Journal struct {
	Dir    string
	writer string
}

// NewJournal creates a journal without entries.
func NewJournal(t testing.TB) *Journal {
	t.Helper()
	Need(t, "journalctl", "systemd", "/usr/bin")
	return &Journal{Dir: t.TempDir(), writer: Need(t, "systemd-journal-remote", "systemd-journal-remote",
		"/lib/systemd", "/usr/lib/systemd")}
}

// Append appends an entry with each of the messages, and further fields as NAME=VALUE lines.
func (j *Journal) Append(fields string, messages ...string) error {
	var text bytes.Buffer
	for _, m := range messages {
		now := time.Now().UnixMicro()
		fmt.Fprintf(&text, "__REALTIME_TIMESTAMP=%d\n__MONOTONIC_TIMESTAMP=%d\n_BOOT_ID=%s\n%sMESSAGE=%s\n\n", now, now,
			strings.Repeat("a1", 16), fields, m)
	}
	in := filepath.Join(j.Dir, "entries.export")
	if err := os.WriteFile(in, text.Bytes(), 0o600); err != nil {
		return err
	}
	if out, err := exec.Command(j.writer, "--output="+filepath.Join(j.Dir, "system.journal"),
		in).CombinedOutput(); err != nil {
		return fmt.Errorf("cannot write to the journal: %w: %s", err, out)
	}
	return nil
}
