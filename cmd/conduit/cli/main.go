package cli

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/peterbourgon/ff/v3/ffcli"
	"golang.org/x/term"

	"github.com/conduit-agent/conduit/agent"
	"github.com/conduit-agent/conduit/agent/catalog"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/reference"
	"github.com/conduit-agent/conduit/cmd/conduit/logging"
	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/spec"
)

// Parser returns the parser of pipelines with the references that the binary contains.
func (p *Program) Parser() spec.Parser { return spec.Parser{References: p.Parts.References} }

// resolve returns the problems of the references of a pipeline, seen from this process.
func (p *Program) resolve(ctx context.Context, pipeline *spec.Pipeline) []spec.Problem {
	r := &reference.Resolver{Kinds: p.Parts.References}
	_, problems := r.Resolve(ctx, &spec.Declaration{Pipeline: *pipeline})
	return problems
}

// optional returns the commands that only some binaries contain.
func (p *Program) optional(commands []func(*Program) *ffcli.Command) (all []*ffcli.Command) {
	for _, c := range commands {
		all = append(all, c(p))
	}
	return all
}

// Main runs the command that the arguments of the process name, in a binary with these parts, and exits.
func Main(parts Parts) {
	p := &Program{
		Stdout:      os.Stdout,
		Stderr:      os.Stderr,
		Version:     Version(),
		Environ:     os.Environ(),
		Terminal:    term.IsTerminal(int(os.Stdout.Fd())),
		Journal:     isJournal(os.Stdout, os.Getenv("JOURNAL_STREAM")),
		ServiceFile: "/etc/conduit/conduit.yaml",
		Catalog: func(c config.Config, log *slog.Logger) Catalog {
			return catalog.Offline(parts.Plugins, c, log)
		},
		Agent: agent.Run,
		Parts: parts,
	}
	if info, err := os.Stdout.Stat(); err == nil && p.Journal && info.Mode()&os.ModeSocket != 0 {
		p.JournalSocket = logging.JournalSocket
	}
	if term.IsTerminal(int(os.Stdin.Fd())) {
		p.Ask = ask
	}
	os.Exit(Run(context.Background(), p, os.Args[1:]))
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
