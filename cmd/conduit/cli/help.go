package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/peterbourgon/ff/v3/ffcli"
)

// helpCommand shows the help of the commands below root.
func helpCommand(p *Program, root *ffcli.Command) *ffcli.Command {
	return &ffcli.Command{
		Name:       "help",
		ShortUsage: "conduit help [COMMAND...]",
		ShortHelp:  "Show the help of a command.",
		LongHelp:   "The same as COMMAND --help.\n\nExample:\n  conduit help pipelines plan",
		Exec: func(ctx context.Context, args []string) error {
			c := root
			args = WithoutAliases(root, args)
			for i, name := range args {
				below := Below(c, name)
				if below == nil && len(c.Subcommands) > 0 {
					return c.Exec(ctx, args[i:]) // which lists the commands
				}
				if below == nil {
					return Invalidf("unexpected argument: %s", name)
				}
				c = below
			}
			fmt.Fprint(p.Stdout, Usage(c))
			return nil
		},
	}
}

func completionCommand(p *Program, root *ffcli.Command) *ffcli.Command {
	flags := NewFlags("completion")
	return &ffcli.Command{
		Name:       "completion",
		ShortUsage: "conduit completion bash|zsh|fish",
		ShortHelp:  "Print a shell completion script.",
		LongHelp: `Packages install these scripts.

Examples:
  conduit completion bash > ~/.local/share/bash-completion/completions/conduit
  conduit completion zsh > ~/.zfunc/_conduit
  conduit completion fish > ~/.config/fish/completions/conduit.fish`,
		FlagSet: flags,
		Exec: func(_ context.Context, args []string) error {
			shell, err := Argument(flags, args, "no shell given; use bash, zsh or fish")
			if err != nil {
				return err
			}
			script, err := Completion(root, shell)
			if err != nil {
				return Invalidf("%v", err)
			}
			_, err = p.Document().Write(script)
			return err
		},
	}
}

func manCommand(p *Program, root *ffcli.Command) *ffcli.Command {
	flags := NewFlags("man")
	dir := flags.String("dir", "", "write the pages of all commands to `DIR`")
	return &ffcli.Command{
		Name:       "man",
		ShortUsage: "conduit man [COMMAND...] [flags]",
		ShortHelp:  "Print the manual page of a command.",
		LongHelp:   "Examples:\n  conduit man pipelines plan | man -l -\n  conduit man --dir /usr/local/share/man/man1",
		FlagSet:    flags,
		Exec: func(_ context.Context, args []string) error {
			words, err := Positional(flags, args, len(args))
			if err != nil {
				return err
			}
			pages := Pages(root, p.Version)
			if *dir != "" {
				return writePages(*dir, pages)
			}
			page, ok := pages[Name(words)]
			if !ok {
				return Invalidf("no manual page %s", Name(words))
			}
			_, err = p.Document().Write(page)
			return err
		},
	}
}

func writePages(dir string, pages map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("cannot write the manual: %w", err)
	}
	for name, page := range pages {
		if err := os.WriteFile(filepath.Join(dir, name), page, 0o644); err != nil {
			return fmt.Errorf("cannot write the manual: %w", err)
		}
	}
	return nil
}
