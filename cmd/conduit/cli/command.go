package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/spec/spelling"
)

// Run runs the command below root that args name and returns the exit code.
func (p *Program) Run(ctx context.Context, root *ffcli.Command, args []string) int {
	var help *ffcli.Command // the command whose flags were wrong or whose help was asked for
	prepare(root, func(c *ffcli.Command) { help = c })

	err := root.Parse(args)
	if err != nil {
		err = &flagError{errors.Unwrap(err)}
	} else {
		err = root.Run(ctx)
	}
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(p.Stdout, usage(help))
		return ExitOK
	}
	if wrong := (*flagError)(nil); errors.As(err, &wrong) {
		err = wrong.explain(help)
	}
	if err != nil && err.Error() != "" {
		fmt.Fprintf(p.Stderr, "conduit: %s\n", terminal.Clean(err.Error()))
	}
	return ExitCode(err)
}

// Group makes c a command that only has subcommands.
func (p *Program) Group(c *ffcli.Command) *ffcli.Command {
	c.Exec = func(_ context.Context, args []string) error {
		if len(args) == 0 {
			fmt.Fprint(p.Stdout, usage(c))
			return nil
		}
		var names []string
		for _, s := range c.Subcommands {
			names = append(names, s.Name)
		}
		return Invalidf("no such command: %s %s%s\nRun '%s --help' for the commands.",
			path(c), args[0], spelling.Hint(args[0], names), path(c))
	}
	return c
}

// prepare gives every command below c a quiet flag set; chosen is called with the
// one whose usage is to be shown.
func prepare(c *ffcli.Command, chosen func(*ffcli.Command)) {
	if c.FlagSet == nil {
		c.FlagSet = NewFlags(c.Name)
	}
	c.UsageFunc = func(c *ffcli.Command) string { chosen(c); return "" }
	for _, s := range c.Subcommands {
		prepare(s, chosen)
	}
}

// NewFlags returns a set of flags that leaves it to Run to say what is wrong.
func NewFlags(name string) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	return fs
}

// Positional returns the arguments that are no flags and parses the flags among them,
// so that flags may follow arguments.
func Positional(c *flag.FlagSet, args []string, most int) ([]string, error) {
	var words []string
	for len(args) > 0 {
		words = append(words, args[0])
		if err := c.Parse(args[1:]); err != nil {
			return nil, &flagError{err}
		}
		args = c.Args()
	}
	if len(words) > most {
		return nil, Invalidf("unexpected argument: %s", words[most])
	}
	return words, nil
}

// flagError is an error of package flag.
type flagError struct{ error }

func (e *flagError) Unwrap() error { return e.error }

// explain says what to do about the error.
func (e *flagError) explain(c *ffcli.Command) error {
	message := e.Error()
	if name, ok := strings.CutPrefix(message, "flag provided but not defined: -"); ok {
		var names []string
		c.FlagSet.VisitAll(func(f *flag.Flag) { names = append(names, "--"+f.Name) })
		name = "--" + strings.TrimPrefix(name, "-")
		message = "no such flag: " + name + spelling.Hint(name, names)
	}
	return Invalidf("%s\nRun '%s --help' for the flags.", message, path(c))
}

// path returns the words that name c on the command line.
func path(c *ffcli.Command) string {
	words := strings.Fields(c.ShortUsage)
	for i, w := range words {
		if w == c.Name {
			return strings.Join(words[:i+1], " ")
		}
	}
	return c.Name
}
