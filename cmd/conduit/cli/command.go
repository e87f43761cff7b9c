package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/spec/texts"
)

// Run runs the command below root that args name and returns the exit code.
func (p *Program) Run(ctx context.Context, root *ffcli.Command, args []string) int {
	defer p.guard()()
	var help *ffcli.Command // the command with the faulty flags or the requested help
	prepare(root, func(c *ffcli.Command) { help = c })

	err := root.Parse(WithoutAliases(root, args))
	if err != nil {
		err = &flagError{errors.Unwrap(err)}
	} else {
		err = root.Run(ctx)
	}
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(p.Stdout, Usage(help))
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
			fmt.Fprint(p.Stdout, Usage(c))
			return nil
		}
		return Invalidf("no such command: %s %s%s\nRun '%s --help' for the commands.",
			Path(c), args[0], hint(c, args[0]), Path(c))
	}
	return c
}

// hint returns the command below c that a word probably means: a name with a similar spelling, with this prefix, or the
// same name further down.
func hint(c *ffcli.Command, word string) string {
	var names []string
	for _, s := range c.Subcommands {
		names = append(names, s.Name)
	}
	for _, alias := range slices.Sorted(maps.Keys(aliases)) {
		if slices.ContainsFunc(aliases[alias], func(name string) bool { return Below(c, name) != nil }) {
			names = append(names, alias)
		}
	}
	if near := texts.Hint(word, names); near != "" {
		return near
	}
	if at := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, word) }); at >= 0 &&
		word != "" {
		return fmt.Sprintf("; did you mean %q?", names[at])
	}
	for _, s := range c.Subcommands {
		for _, below := range s.Subcommands {
			if below.Name == word {
				return fmt.Sprintf("; did you mean '%s'?", Path(below))
			}
		}
	}
	if meant := equivalents[Path(c)+" "+word]; meant != "" {
		return fmt.Sprintf("; did you mean '%s'?", meant)
	}
	return ""
}

// equivalents maps commands that do not exist, such as commands of Conduit, to their equivalents.
var equivalents = map[string]string{
	"conduit connector-plugins": "conduit plugins ls",
	"conduit connectors init":   "conduit plugins init",
	"conduit connectors new":    "conduit plugins init",
	"conduit pipelines new":     "conduit pipelines init",
	"conduit plugins create":    "conduit plugins init",
	"conduit plugins new":       "conduit plugins init",
	"conduit processor-plugins": "conduit plugins ls --processors",
	"conduit processors":        "conduit plugins ls --processors",
}

// aliases maps words that people try for commands to possible names of the command.
var aliases = map[string][]string{"list": {"ls"}, "rm": {"delete", "drop"}, "get": {"describe"}, "show": {"describe"}}

// WithoutAliases returns args with the alias of a command replaced by its name.
func WithoutAliases(root *ffcli.Command, args []string) []string {
	if len(args) < 2 {
		return args
	}
	group := Below(root, args[0])
	if group == nil || Below(group, args[1]) != nil {
		return args
	}
	for _, name := range aliases[args[1]] {
		if Below(group, name) != nil {
			args = slices.Clone(args)
			args[1] = name
			return args
		}
	}
	return args
}

// Aliases returns the aliases of the command with this name below group.
func Aliases(group *ffcli.Command, name string) (all []string) {
	for _, alias := range slices.Sorted(maps.Keys(aliases)) {
		for _, meant := range aliases[alias] {
			if Below(group, meant) == nil {
				continue
			}
			if meant == name && Below(group, alias) == nil {
				all = append(all, alias)
			}
			break
		}
	}
	return all
}

// Below returns the command of this name directly below c, nil if there is none.
func Below(c *ffcli.Command, name string) *ffcli.Command {
	for _, s := range c.Subcommands {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// prepare gives every command below c a quiet flag set. chosen is called with the command whose usage to show.
func prepare(c *ffcli.Command, chosen func(*ffcli.Command)) {
	if c.FlagSet == nil {
		c.FlagSet = NewFlags(c.Name)
	}
	c.UsageFunc = func(c *ffcli.Command) string { chosen(c); return "" }
	for _, s := range c.Subcommands {
		prepare(s, chosen)
	}
}

// NewFlags returns a set of flags that prints no errors: Run reports them.
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

// Argument returns the one argument that is no flag, and parses flags as Positional does. If it is missing, the error
// has the text of missing, formatted as by Invalidf.
func Argument(c *flag.FlagSet, args []string, missing string, a ...any) (string, error) {
	words, err := Positional(c, args, 1)
	if err == nil && len(words) == 0 {
		err = Invalidf(missing, a...)
	}
	if err != nil {
		return "", err
	}
	return words[0], nil
}

// flagError is an error of package flag.
type flagError struct{ error }

func (e *flagError) Unwrap() error { return e.error }

// explain adds a remedy to the error.
func (e *flagError) explain(c *ffcli.Command) error {
	message := e.Error()
	if name, ok := strings.CutPrefix(message, "flag provided but not defined: -"); ok {
		name = written(strings.TrimPrefix(name, "-"))
		message = "no such flag: " + name + flagHint(c.FlagSet, name)
	} else if name, ok := strings.CutPrefix(message, "flag needs an argument: -"); ok {
		message = "flag needs a value: " + written(name)
	} else if value, rest, ok := strings.Cut(message, "\" for flag -"); ok { // invalid value "VALUE" for flag -NAME: WHY
		name, why, _ := strings.Cut(rest, ": ")
		message = value + "\" for flag " + written(name) + ": " + why
	} else if value, rest, ok := strings.Cut(message, "\" for -"); ok { // invalid boolean value "VALUE" for -NAME: WHY
		name, _, _ := strings.Cut(rest, ": ")
		message = value + "\" for flag " + written(name) + ": must be true or false"
	}
	return Invalidf("%s\nRun '%s --help' for the flags.", message, Path(c))
}

// flagHint returns the flag that an unknown one probably means. Every single letter is similar to every other, so a
// one-letter flag is found by the word for its value.
func flagHint(fs *flag.FlagSet, name string) string {
	words := []string{"--help"}
	flags := map[string]string{"--help": "--help"} // by word
	fs.VisitAll(func(f *flag.Flag) {
		word := "--" + f.Name
		if len(f.Name) == 1 {
			value, _ := flag.UnquoteUsage(f)
			if value == "" || value != strings.ToUpper(value) {
				return
			}
			word = "--" + value
		}
		words, flags[word] = append(words, word), written(f.Name)
	})
	if near := texts.Closest(name, words); near != "" {
		return fmt.Sprintf("; did you mean %q?", flags[near])
	}
	return ""
}

// written returns the name of a flag with dashes, as in the help.
func written(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// Path returns the words that name c on the command line.
func Path(c *ffcli.Command) string {
	words := strings.Fields(c.ShortUsage)
	for i, w := range words {
		if w == c.Name {
			return strings.Join(words[:i+1], " ")
		}
	}
	return c.Name
}
