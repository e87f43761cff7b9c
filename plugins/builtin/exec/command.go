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

// commandSettings say what to run, and when to run it again.
type commandSettings struct {
	Command string `json:"command" desc:"What to run: the program and its arguments as a JSON list. No shell sees it."`
	Shell   string `json:"shell" desc:"What to run instead of command, as a line for /bin/sh."`
	Restart string `json:"restart" default:"on-failure" validate:"inclusion=always|on-failure|never" desc:"When to run the command again after it has ended."`
	Backoff struct {
		Min time.Duration `json:"min" default:"1s" validate:"gt=0" desc:"First pause before the command runs again. It doubles while the command does nothing."`
		Max time.Duration `json:"max" default:"1m" validate:"gt=0" desc:"Longest pause."`
	} `json:"backoff"`
}

// args returns the command as a list.
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
		return nil, fmt.Errorf(`"command": must be a JSON list such as ["tail", "-F", "/var/log/syslog"], not %q`, c.Command)
	}
	return args, nil
}

// endTimeout is how long a command may take to end after SIGTERM.
const endTimeout = 2 * time.Second

// newCommand returns the command, which ends with ctx and logs what it says on stderr, as far as throttle
// allows. env is its environment; nil: that of this process.
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

// withoutPlugin leaves out what is for this process only.
func withoutPlugin(env []string) (out []string) {
	for _, v := range env {
		if !strings.HasPrefix(v, "CONDUIT_CONNECTOR_") && !strings.HasPrefix(v, "CONDUIT_PLUGIN_") && !strings.HasPrefix(v, "PLUGIN_") {
			out = append(out, v)
		}
	}
	return out
}

// pause waits before the command runs again; ok says that it did something.
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

// maxLine bounds a line that a command prints.
const maxLine = 16 << 20

// longLineError is the error of a line longer than maxLine. The line was read to its end.
type longLineError struct{ length int }

func (e longLineError) Error() string {
	return fmt.Sprintf("the command prints a line of %d bytes, more than %d", e.length, maxLine)
}

// readLine returns the next line without its newline, as a copy. At the end it returns
// what follows the last newline, with io.EOF. For a line that is too long it returns a longLineError.
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

// maxLogged bounds a line of the log; what is longer comes in pieces.
const maxLogged = 16 << 10

// Write takes everything.
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
