// Command conduit keeps the pipelines declared in a directory of YAML files running.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/term"

	"github.com/conduit-agent/conduit/agent"
	plugincatalog "github.com/conduit-agent/conduit/agent/catalog"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/cmd/conduit/cli"
	"github.com/conduit-agent/conduit/cmd/conduit/docs"
	"github.com/conduit-agent/conduit/cmd/conduit/logging"
	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/plugins/sandbox"
)

func main() {
	sandbox.Launch()
	if cli.StandIn() {
		return
	}
	p := &cli.Program{
		Stdout:      os.Stdout,
		Stderr:      os.Stderr,
		Version:     cli.Version(),
		Environ:     os.Environ(),
		Terminal:    term.IsTerminal(int(os.Stdout.Fd())),
		Journal:     isJournal(os.Stdout, os.Getenv("JOURNAL_STREAM")),
		ServiceFile: "/etc/conduit/conduit.yaml",
		Catalog: func(c config.Config, log *slog.Logger) cli.Catalog {
			return plugincatalog.Offline(c, log)
		},
		Agent: agent.Run,
		Site:  docs.Of,
	}
	if info, err := os.Stdout.Stat(); err == nil && p.Journal && info.Mode()&os.ModeSocket != 0 {
		p.JournalSocket = logging.JournalSocket
	}
	if term.IsTerminal(int(os.Stdin.Fd())) {
		p.Ask = ask
	}
	os.Exit(cli.Run(context.Background(), p, os.Args[1:]))
}

// ask asks a question on the terminal and reports whether the answer is yes.
func ask(question string) bool {
	fmt.Fprintf(os.Stderr, "%s [y/N] ", terminal.Clean(question))
	answer, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	return slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(answer)))
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
