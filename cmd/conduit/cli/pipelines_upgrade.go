package cli

import (
	"context"
	"fmt"
	"os"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/spec"
)

func upgradeCommand(p *Program) *ffcli.Command {
	flags := NewFlags("migrate")
	inPlace := flags.Bool("w", false, "write the file instead of printing it")
	return &ffcli.Command{
		Name:       "migrate",
		ShortUsage: "conduit pipelines migrate FILE [flags]",
		ShortHelp:  "Write a pipeline file of version 1.x or 2.x as version 2.2.",
		LongHelp: `Prints the file with lists instead of maps and with current field names, and keeps comments.
Processors keep the order of the file; in versions 1.x the order was random.

Example:
  conduit pipelines migrate -w pipelines/orders.yaml`,
		FlagSet: flags,
		Exec: func(_ context.Context, args []string) error {
			path, err := Argument(flags, args, "migrate needs a file: conduit pipelines migrate FILE")
			if err != nil {
				return err
			}
			return upgradeFile(p, path, *inPlace)
		},
	}
}

func upgradeFile(p *Program, path string, inPlace bool) error {
	text, err := readFile(path)
	if err != nil {
		return err
	}
	out, err := spec.Upgrade(text)
	if err != nil {
		return Invalidf("%s: %v", path, err)
	}
	f := p.Parser().File(path, out)
	p.ProblemsTo(p.Stderr, f.Problems)
	if !inPlace {
		_, err = p.Document().Write(out)
		return err
	}
	if HasErrors(f.Problems) {
		return Invalidf("%s has errors and is not changed", path)
	}
	return replaceFile(path, out)
}

// replaceFile replaces the content of the file at path atomically.
func replaceFile(path string, content []byte) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	draft := path + ".migrated"
	if err := os.WriteFile(draft, content, info.Mode().Perm()); err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	return os.Rename(draft, path)
}

// ParseAnyVersion reads a pipeline file of any version.
func (p *Program) ParseAnyVersion(path string, text []byte) spec.File {
	if out, err := spec.Upgrade(text); err == nil {
		text = out
	}
	return p.Parser().File(path, text)
}
