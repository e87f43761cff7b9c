package notification

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/subprocess"
)

// endTimeout bounds the wait for the output of a killed command.
const endTimeout = 2 * time.Second

// Command runs a command for each notification, with the JSON on its standard input. Exit status 0 means that the
// command accepted it. Make it with NewCommand.
type Command struct {
	args    []string
	env     []string
	timeout time.Duration
}

// NewCommand returns the command in line, a JSON list. env is its environment.
func NewCommand(line string, env []string, timeout time.Duration) (*Command, error) {
	var args []string
	if err := json.Unmarshal([]byte(line), &args); err != nil || len(args) == 0 || args[0] == "" {
		return nil, errors.New(`it is not a JSON list such as ["/usr/local/bin/page", "--team", "data"]`)
	}
	return &Command{args, env, timeout}, nil
}

// Name implements Target: arguments may contain a secret.
func (c *Command) Name() string { return "command " + filepath.Base(c.args[0]) }

// Send implements Target.
func (c *Command) Send(ctx context.Context, _ *Notification, body []byte) error {
	limited, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	cmd := exec.CommandContext(limited, c.args[0], c.args[1:]...)
	out := &tail{}
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = c.env, bytes.NewReader(body), out, out, endTimeout
	group(cmd)
	err := subprocess.Run(cmd)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case limited.Err() != nil:
		return fmt.Errorf("%s takes longer than %v", c.Name(), c.timeout)
	}
	said := ""
	if text := strings.TrimSpace(out.String()); text != "" {
		said = ": " + text
	}
	return fmt.Errorf("%s failed: %w%s", c.Name(), err, said)
}

// maxTail is the maximum length in bytes of the output of a command in an error.
const maxTail = 500

// tail keeps the end of the written text.
type tail struct{ bytes.Buffer }

// Write accepts all of p.
func (t *tail) Write(p []byte) (int, error) {
	t.Buffer.Write(p)
	if extra := t.Len() - maxTail; extra > 0 {
		t.Next(extra)
	}
	return len(p), nil
}
