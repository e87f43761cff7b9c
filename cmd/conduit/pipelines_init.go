package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/spec"
)

// pipelinesInit are the arguments of the command.
type pipelinesInit struct {
	source, destination string
	name, dir           string
	force               bool
}

func pipelinesInitCommand(p *program) *ffcli.Command {
	flags, a := newFlags("init"), &pipelinesInit{}
	flags.StringVar(&a.source, "source", "", "`PLUGIN` to read from (default generator)")
	flags.StringVar(&a.destination, "destination", "", "`PLUGIN` to write to (default log)")
	flags.StringVar(&a.name, "name", "", "`NAME` of the pipeline and, with .yaml, of the file (default demo-pipeline)")
	flags.StringVar(&a.dir, "path", "./pipelines", "`DIR` to write the file to")
	flags.BoolVar(&a.force, "force", false, "overwrite the file when it exists")
	return &ffcli.Command{
		Name:       "init",
		ShortUsage: "conduit pipelines init [NAME] [flags]",
		ShortHelp:  "Write a pipeline file to start from.",
		LongHelp: `Without flags it writes a demo: a generator of one record per second, and the log. With a
source or a destination it writes every setting of the two, explained; the pipeline is
stopped until settings that must be given are filled in.

Examples:
  conduit pipelines init
  conduit pipelines init copy --source file --destination file`,
		FlagSet: flags,
		Exec: func(ctx context.Context, args []string) error {
			words, err := positional(flags, args, 1)
			if err != nil {
				return err
			}
			if len(words) == 1 {
				a.name = words[0]
			}
			return p.pipelinesInit(ctx, a)
		},
	}
}

var pipelineName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$`)

func (p *program) pipelinesInit(ctx context.Context, a *pipelinesInit) error {
	s, err := p.scaffold(ctx, a)
	if err != nil {
		return err
	}
	if !pipelineName.MatchString(s.ID) {
		return invalidf("not a name for a pipeline: %q; use letters, digits, '-', '_' and '.', at most 100", s.ID)
	}
	if err := os.MkdirAll(a.dir, 0o755); err != nil {
		return fmt.Errorf("cannot make directory: %w", err)
	}
	path := filepath.Join(a.dir, s.ID+".yaml")
	if err := writeNew(path, s.render(), a.force); errors.Is(err, fs.ErrExist) {
		return invalidf("%s exists; --force overwrites it", path)
	} else if err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "created  %s\n", path)
	if s.Status == spec.StatusStopped {
		fmt.Fprintln(p.stdout, "Fill in the settings marked as required and set status to running.")
	}
	return nil
}

func (p *program) scaffold(ctx context.Context, a *pipelinesInit) (*scaffold, error) {
	if a.source == "" && a.destination == "" {
		return demo(cmp.Or(a.name, "demo-pipeline")), nil
	}
	c, err := (&settings{}).load(p)
	if err != nil {
		return nil, err
	}
	return p.scaffoldOf(ctx, p.catalog(c, slog.New(slog.DiscardHandler)), a)
}

func (p *program) scaffoldOf(ctx context.Context, plugins catalog, a *pipelinesInit) (*scaffold, error) {
	source, destination := cmp.Or(a.source, "generator"), cmp.Or(a.destination, "log")
	s := &scaffold{
		ID:          cmp.Or(a.name, plainName(source)+"-to-"+plainName(destination)),
		Description: "Moves records from " + source + " to " + destination + ".",
		Status:      spec.StatusRunning,
	}
	for _, end := range []struct {
		plugin string
		typ    spec.ConnectorType
	}{{source, spec.TypeSource}, {destination, spec.TypeDestination}} {
		parameters, err := plugins.Parameters(ctx, end.plugin, end.typ)
		if err != nil {
			return nil, invalidf("%v", err)
		}
		s.add(end.plugin, end.typ, parameters)
	}
	return s, nil
}
