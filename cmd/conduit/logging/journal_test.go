package logging_test

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/cmd/conduit/logging"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// listen returns the socket of a journal.
func listen(t *testing.T, path string) *net.UnixConn {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// entry returns the next entry that the journal receives.
func entry(t *testing.T, conn *net.UnixConn) string {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(wait.Limit)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1<<20)
	n, err := conn.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

func open(t *testing.T, path string) (*logging.Journal, *slog.Logger) {
	t.Helper()
	w, err := logging.OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	return w, slog.New(w.Handler("info"))
}

func TestFields(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	conn := listen(t, path)
	w, log := open(t, path)
	defer w.Close()
	log.With("component", "plugin", "connector_id", "p:in", "plugin_name", "file").Warn("cannot read", "pipeline_id",
		"p", "err", errors.New("gone"))
	want := "MESSAGE=WRN cannot read component=plugin connector_id=p:in plugin_name=file pipeline_id=p err=gone\n" +
		"PRIORITY=4\nSYSLOG_IDENTIFIER=conduit\nCOMPONENT=plugin\nCONNECTOR_ID=p:in\nPLUGIN_NAME=file\nPIPELINE_ID=p\n"
	if got := entry(t, conn); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
	log.WithGroup("g").Error("grouped", "pipeline_id", "a\nPRIORITY=0")
	if got := entry(t, conn); strings.Contains(got, "PIPELINE_ID") || !strings.Contains(got, "PRIORITY=3\n") {
		t.Errorf("of a group: %s", got)
	}
	log.Debug("not enabled")
	log.Info("lines", "component", "a\nb")
	if got := entry(t, conn); !strings.Contains(got, "COMPONENT\n\x03\x00\x00\x00\x00\x00\x00\x00a\nb\n") ||
		!strings.Contains(got, "PRIORITY=6\n") {
		t.Errorf("with a line break: %q", got)
	}
}

// TestSlowJournal has a journal that reads nothing for a while: logging does not block, and the journal learns the
// number of missing lines.
func TestSlowJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	conn := listen(t, path)
	w, log := open(t, path)
	const written = 20_000
	for range written {
		log.Info("flood", "text", strings.Repeat("x", 1000)) // would wait for ever if it did
	}
	if w.Dropped() == 0 {
		t.Fatal("a journal that takes nothing took everything")
	}
	for !strings.Contains(entry(t, conn), "log lines were dropped: the journal was too slow") {
		log.Info("more") // the number of dropped lines comes before the next line
	}
	w.Close()
}

func TestJournalIsRestarted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	conn := listen(t, path)
	w, log := open(t, path)
	defer w.Close()
	log.Info("before")
	entry(t, conn)
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	conn = listen(t, path)
	log.Info("after")
	if got := entry(t, conn); !strings.Contains(got, "after") {
		t.Errorf("after the restart: %s", got)
	}
}

func TestNoJournal(t *testing.T) {
	if w, err := logging.OpenJournal(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Errorf("connected to nothing: %v", w)
	}
}
