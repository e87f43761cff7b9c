package cli

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// start starts "conduit run" and returns when its agent runs.
func start(t *testing.T, wait string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := &exec.Cmd{Path: self, Args: []string{"conduit", "run"}, Dir: t.TempDir(),
		Env: append(os.Environ(), "WAIT="+wait, "GORACE=atexit_sleep_ms=0")}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	lines := bufio.NewScanner(out)
	expectLine(t, lines, "agent started")
	return cmd, lines
}

func expectLine(t *testing.T, lines *bufio.Scanner, text string) {
	t.Helper()
	if !lines.Scan() || !strings.Contains(lines.Text(), text) {
		t.Fatalf("want a line with %q, got %q %v", text, lines.Text(), lines.Err())
	}
}

func TestFirstSignalEndsGracefully(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			cmd, lines := start(t, "graceful")
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			expectLine(t, lines, "agent stopped")
			if err := cmd.Wait(); err != nil {
				t.Errorf("ended with %v", err)
			}
		})
	}
}

func TestHangupAsksForAReload(t *testing.T) {
	cmd, lines := start(t, "graceful")
	for _, step := range []struct {
		signal syscall.Signal
		line   string
	}{{syscall.SIGHUP, "agent reloads"}, {syscall.SIGHUP, "agent reloads"}, {syscall.SIGTERM, "agent stopped"}} {
		if err := cmd.Process.Signal(step.signal); err != nil {
			t.Fatal(err)
		}
		expectLine(t, lines, step.line)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("ended with %v", err)
	}
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	for signal, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		t.Run(signal.String(), func(t *testing.T) {
			cmd, lines := start(t, "stuck")
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			expectLine(t, lines, "agent stopping")
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			cmd.Wait()
			if got := cmd.ProcessState.ExitCode(); got != want {
				t.Errorf("exit code %d, want %d", got, want)
			}
		})
	}
}
