// Command conduit keeps the pipelines declared in a directory of YAML files running.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"syscall"

	"golang.org/x/term"

	"github.com/conduit-agent/conduit/agent"
	plugincatalog "github.com/conduit-agent/conduit/agent/catalog"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/plugins/sandbox"
)

func main() {
	sandbox.Launch()
	p := &program{
		stdout:   os.Stdout,
		stderr:   os.Stderr,
		environ:  os.Environ(),
		terminal: term.IsTerminal(int(os.Stdout.Fd())),
		journal:  isJournal(os.Stdout, os.Getenv("JOURNAL_STREAM")),
		catalog: func(c config.Config, log *slog.Logger) catalog {
			return plugincatalog.Offline(c, log)
		},
		agent: agent.Run,
	}
	os.Exit(p.run(context.Background(), os.Args[1:]))
}

// program is everything the commands need of the world around them.
type program struct {
	stdout, stderr io.Writer
	environ        []string
	terminal       bool // stdout is one
	journal        bool // stdout leads to systemd's journal
	catalog        func(config.Config, *slog.Logger) catalog
	agent          func(context.Context, agent.Options) error
}

// isJournal reports whether f is the stream that systemd named in JOURNAL_STREAM, by
// device and inode.
func isJournal(f *os.File, stream string) bool {
	info, err := f.Stat()
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stream == fmt.Sprintf("%d:%d", stat.Dev, stat.Ino)
}

// color reports whether output may be coloured.
func (p *program) color() bool {
	return p.terminal && p.getenv("NO_COLOR") == "" && p.getenv("TERM") != "dumb"
}

// getenv returns the value of a variable of environ; the last one counts.
func (p *program) getenv(name string) string {
	value := ""
	for _, v := range p.environ {
		if rest, ok := strings.CutPrefix(v, name+"="); ok {
			value = rest
		}
	}
	return value
}
