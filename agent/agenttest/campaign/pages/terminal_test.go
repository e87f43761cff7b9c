package pages

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

var link = flag.Bool("link", false,
	"have the go command link the binary each time that a page says so, which takes minutes in all")

//go:embed terminal.sh
var shell string

// terminal is the shell of a reader.
type terminal struct {
	*testing.T
	stand
	dir     string
	scratch string // files of the terminal itself
	env     []string
}

// newTerminal opens a terminal at the starting point of the reader.
func newTerminal(t *testing.T, bin string, reader stand) *terminal {
	home := t.TempDir()
	short, err := os.MkdirTemp("", "") // sockets are made below it, whose paths must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	o := &terminal{T: t, stand: reader, dir: t.TempDir(), scratch: t.TempDir()}
	if reader.checkout {
		o.dir = copyOfCheckout(t)
	}
	o.env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+home, "SCRATCH="+o.scratch, "TMPDIR="+short,
		"GOFLAGS=-trimpath -ldflags=-w", "GOSUMDB=off", "CONDUIT_API_HTTP_ADDRESS=127.0.0.1:0")
	for _, name := range []string{"GOPATH", "GOMODCACHE", "GOCACHE"} { // which are below HOME by default
		value, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatalf("cannot ask for %s: %v", name, err)
		}
		o.env = append(o.env, name+"="+strings.TrimSpace(string(value)))
	}
	return o
}

// execute executes blocks of commands in sequence.
func (o *terminal) execute(path string, blocks []block) {
	o.Helper()
	ctx, cancel := context.WithTimeout(o.Context(), 9*time.Minute)
	defer cancel()
	bash := exec.CommandContext(ctx, "bash", "-c", o.script(path, blocks))
	var out bytes.Buffer
	bash.Dir, bash.Env, bash.Stdout, bash.Stderr = o.dir, o.env, &out, &out
	bash.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // with the agents that it starts
	end := func() error { return syscall.Kill(-bash.Process.Pid, syscall.SIGKILL) }
	bash.Cancel = end
	bash.WaitDelay = time.Second
	err := bash.Run()
	_ = end() // kills the remaining processes
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		o.Errorf("%v\n%s\nthe agent:\n%s", err, out.Bytes(), o.agentLog())
	}
}

// agentLog returns the log of the agent, without records.
func (o *terminal) agentLog() string {
	log, _ := os.ReadFile(filepath.Join(o.scratch, "agent.log")) // missing before the agent is started
	lines := slices.DeleteFunc(strings.SplitAfter(string(log), "\n"), func(line string) bool {
		return strings.Contains(line, " record=")
	})
	return strings.Join(lines, "")
}

// script returns the input of the terminal. It prints the name of each block before its commands.
func (o *terminal) script(path string, blocks []block) string {
	var b strings.Builder
	b.WriteString(shell)
	for _, line := range o.before {
		fmt.Fprintln(&b, script(line))
	}
	for _, one := range blocks {
		fmt.Fprintf(&b, "echo '== %s:%d'\n", path, one.line)
		for line := range strings.Lines(strings.NewReplacer(o.replace...).Replace(one.text)) {
			line = script(strings.TrimSuffix(line, "\n"))
			if !*link {
				line = strings.Replace(line, "go build ", "built go build ", 1)
			}
			fmt.Fprintln(&b, line)
		}
	}
	return b.String()
}

// copyOfCheckout copies the files of this checkout that readers have, too.
func copyOfCheckout(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		to := filepath.Join(dir, strings.TrimPrefix(path, root))
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == ".git":
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(to, 0o755)
		case d.Type().IsRegular():
			return copyFile(path, to)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, info.Mode())
}
