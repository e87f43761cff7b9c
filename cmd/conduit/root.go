package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/spec/spelling"
)

// run runs the command that args name and returns the exit code.
func (p *program) run(ctx context.Context, args []string) int {
	var help *ffcli.Command // the command whose flags were wrong or whose help was asked for
	root := p.root()
	prepare(root, func(c *ffcli.Command) { help = c })

	err := root.Parse(args)
	if err != nil {
		err = &flagError{errors.Unwrap(err)}
	} else {
		err = root.Run(ctx)
	}
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(p.stdout, usage(help))
		return exitOK
	}
	if wrong := (*flagError)(nil); errors.As(err, &wrong) {
		err = wrong.explain(help)
	}
	if err != nil && err.Error() != "" {
		fmt.Fprintf(p.stderr, "conduit: %s\n", printableOnly(err.Error()))
	}
	return exitCode(err)
}

func (p *program) root() *ffcli.Command {
	return p.group(&ffcli.Command{
		Name:       "conduit",
		ShortUsage: "conduit COMMAND [flags]",
		ShortHelp:  "Keep the pipelines declared in a directory of YAML files running.",
		LongHelp: `Edit a file and save: that pipeline, and only that one, becomes what the file says.

Examples:
  conduit init             make the directories and conduit.yaml
  conduit pipelines init   write a demo pipeline
  conduit run              run everything under pipelines
  conduit status           see what runs`,
		Subcommands: []*ffcli.Command{
			initCommand(p), runCommand(p), pipelinesCommand(p), connectorsCommand(p), pluginsCommand(p), dlqCommand(p), spoolCommand(p), statusCommand(p), reloadCommand(p), migrateCommand(p), schemaCommand(p), versionCommand(p),
		},
	})
}

// group makes c a command that only has subcommands.
func (p *program) group(c *ffcli.Command) *ffcli.Command {
	c.Exec = func(_ context.Context, args []string) error {
		if len(args) == 0 {
			fmt.Fprint(p.stdout, usage(c))
			return nil
		}
		var names []string
		for _, s := range c.Subcommands {
			names = append(names, s.Name)
		}
		return invalidf("no such command: %s %s%s\nRun '%s --help' for the commands.",
			path(c), args[0], spelling.Hint(args[0], names), path(c))
	}
	return c
}

// prepare gives every command below c a quiet flag set; chosen is called with the
// one whose usage is to be shown.
func prepare(c *ffcli.Command, chosen func(*ffcli.Command)) {
	if c.FlagSet == nil {
		c.FlagSet = newFlags(c.Name)
	}
	c.UsageFunc = func(c *ffcli.Command) string { chosen(c); return "" }
	for _, s := range c.Subcommands {
		prepare(s, chosen)
	}
}

func newFlags(name string) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	return fs
}

// positional returns the arguments that are no flags and parses the flags among them,
// so that flags may follow arguments.
func positional(c *flag.FlagSet, args []string, most int) ([]string, error) {
	var words []string
	for len(args) > 0 {
		words = append(words, args[0])
		if err := c.Parse(args[1:]); err != nil {
			return nil, &flagError{err}
		}
		args = c.Args()
	}
	if len(words) > most {
		return nil, invalidf("unexpected argument: %s", words[most])
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
	return invalidf("%s\nRun '%s --help' for the flags.", message, path(c))
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
