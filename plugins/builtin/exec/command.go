package exec

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/conduit-agent/conduit/plugins/subprocess"
)

// commandSettings define the command, and when it runs again.
type commandSettings struct {
	// Command to run: the program and its arguments as a JSON list. It runs without a shell.
	Command string `json:"command"`
	// Command to run with /bin/sh, instead of command.
	Shell string `json:"shell"`
	// When to run the command again after it has ended.
	Restart string `json:"restart" default:"on-failure" validate:"inclusion=always|on-failure|never"`
	Backoff struct {
		// First pause before the command runs again. It doubles while the command does nothing.
		Min time.Duration `json:"min" default:"1s" validate:"gt=0"`
		// Longest pause.
		Max time.Duration `json:"max" default:"1m" validate:"gt=0"`
	} `json:"backoff"`
}

// args returns the program and its arguments.
func (c *commandSettings) args() ([]string, error) {
	switch {
	case c.Command != "" && c.Shell != "":
		return nil, errors.New(`"command" and "shell" cannot both be set`)
	case c.Shell != "":
		return []string{"/bin/sh", "-c", c.Shell}, nil
	case c.Command == "":
		return nil, errors.New(`"command": is required, unless "shell" is set`)
	}
	var args []string
	if err := json.Unmarshal([]byte(c.Command), &args); err != nil || len(args) == 0 || args[0] == "" {
		return nil, fmt.Errorf(`"command": must be a JSON list such as ["tail", "-F", "/var/log/syslog"], not %q`,
			c.Command)
	}
	return args, nil
}

// endTimeout is the time that a command has to end after SIGTERM.
const endTimeout = 2 * time.Second

// newCommand returns a command that ends with ctx. The command's stderr goes to log, limited by throttle. env is the
// environment of the command; nil: the environment of this process.
func newCommand(ctx context.Context, args, env []string, log *slog.Logger, throttle *subprocess.Throttle) *exec.Cmd {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = endTimeout
	cmd.Stderr = &logWriter{log: log, throttle: throttle}
	if env == nil {
		env = os.Environ()
	}
	cmd.Env = withoutPlugin(env)
	return cmd
}

// withoutPlugin returns env without the variables that are meant for this process only.
func withoutPlugin(env []string) (out []string) {
	for _, v := range env {
		if !strings.HasPrefix(v, "CONDUIT_CONNECTOR_") && !strings.HasPrefix(v, "CONDUIT_PLUGIN_") &&
			!strings.HasPrefix(v, "PLUGIN_") {
			out = append(out, v)
		}
	}
	return out
}

// pause waits before the next run and returns the length of the pause. ok reports whether the last run made progress;
// it resets the backoff.
func (c *commandSettings) pause(ctx context.Context, last time.Duration, ok bool) time.Duration {
	next := min(2*last, c.Backoff.Max)
	if ok || last == 0 {
		next = min(c.Backoff.Min, c.Backoff.Max)
	}
	timer := time.NewTimer(next)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return next
}

// maxLine is the maximum length of a line of output, in bytes.
const maxLine = 16 << 20

// longLineError reports a line longer than maxLine. The line was read to its end.
type longLineError struct{ length int }

func (e longLineError) Error() string {
	return fmt.Sprintf("the command prints a line of %d bytes, more than %d", e.length, maxLine)
}

// readLine returns a copy of the next line without its newline. At the end it returns the bytes after the last newline,
// with io.EOF. For a line longer than maxLine it returns a longLineError.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	length := 0
	for {
		part, err := r.ReadSlice('\n')
		if length += len(part); length > maxLine {
			line = nil
		} else {
			line = append(line, part...)
		}
		switch {
		case length > maxLine && (err == nil || errors.Is(err, io.EOF)):
			return nil, longLineError{length}
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil:
			return line, err
		default:
			return bytes.TrimSuffix(line[:len(line)-1], []byte("\r")), nil
		}
	}
}

// logWriter logs lines.
type logWriter struct {
	log      *slog.Logger
	throttle *subprocess.Throttle
	buf      []byte
}

// maxLogged is the maximum length of a logged line, in bytes. Longer lines are split.
const maxLogged = 16 << 10

// Write logs the complete lines of p and keeps the rest.
func (w *logWriter) Write(p []byte) (int, error) {
	w.buf = append(w.buf, p...)
	rest := w.buf
	for {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 && len(rest) < maxLogged {
			w.buf = append(w.buf[:0], rest...)
			return len(p), nil
		}
		if i < 0 || i > maxLogged {
			i = maxLogged - 1
		}
		if text := strings.TrimSpace(string(rest[:i+1])); text != "" && w.throttle.Allow(len(text)) {
			w.log.Info(text)
		}
		rest = rest[i+1:]
	}
}
