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

// endTimeout is how long the output of a command that was killed is waited for.
const endTimeout = 2 * time.Second

// Command runs a command for each notification, with the JSON on its standard input. Exit status 0
// says that it was taken. Make it with NewCommand.
type Command struct {
	args    []string
	env     []string
	timeout time.Duration
}

// NewCommand returns the command that line says, a JSON list. env is its environment.
func NewCommand(line string, env []string, timeout time.Duration) (*Command, error) {
	var args []string
	if err := json.Unmarshal([]byte(line), &args); err != nil || len(args) == 0 || args[0] == "" {
		return nil, errors.New(`it is no JSON list such as ["/usr/local/bin/page", "--team", "data"]`)
	}
	return &Command{args, env, timeout}, nil
}

// Name implements Target: arguments may hold a secret.
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

// maxTail bounds what an error says of the output of a command.
const maxTail = 500

// tail keeps the end of what is written.
type tail struct{ bytes.Buffer }

// Write takes everything.
func (t *tail) Write(p []byte) (int, error) {
	t.Buffer.Write(p)
	if extra := t.Len() - maxTail; extra > 0 {
		t.Next(extra)
	}
	return len(p), nil
}
