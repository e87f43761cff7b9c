//go:build unix

package notification_test

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/notification"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// A command that takes too long ends with all processes that it started.
func TestCommandEndsWithItsChildren(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	line, _ := json.Marshal([]string{"/bin/sh", "-c", "sleep 300 >" + fifo + " & wait"})
	c, err := notification.NewCommand(string(line), []string{"PATH=" + os.Getenv("PATH")}, 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		r, err := os.Open(fifo)
		if err == nil {
			_, err = io.ReadAll(r) // until no process has it open
		}
		ended <- err
	}()
	if err := send(t, c); err == nil || !strings.Contains(err.Error(), "takes longer than 50ms") {
		t.Errorf("a command that hangs: %v", err)
	}
	hold, err := os.OpenFile(fifo, os.O_WRONLY|syscall.O_NONBLOCK, 0) // in case the shell did not open it
	if err == nil {
		hold.Close()
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(wait.Limit):
		t.Error("what the command started goes on")
	}
}
