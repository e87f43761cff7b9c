package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/schemas"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/texts"
)

// initArgs are the arguments of the command.
type initArgs struct {
	source, destination string
	name, dir           string
	force               bool
	at                  *Settings
}

func pipelinesInitCommand(p *Program) *ffcli.Command {
	flags, a := NewFlags("init"), &initArgs{}
	a.at = SettingFlags(flags, "pipelines.path", "connectors.path")
	flags.StringVar(&a.source, "source", "", "`PLUGIN` to read from (default generator)")
	flags.StringVar(&a.destination, "destination", "", "`PLUGIN` to write to (default log)")
	flags.StringVar(&a.name, "name", "", "`NAME` of the pipeline and, with .yaml, of the file (default demo-pipeline)")
	flags.StringVar(&a.dir, "path", "", "`DIR` to write the file to (default pipelines.path)")
	flags.BoolVar(&a.force, "force", false, "overwrite an existing file")
	return &ffcli.Command{
		Name:       "init",
		ShortUsage: "conduit pipelines init [NAME] [flags]",
		ShortHelp:  "Write a pipeline file to start from.",
		LongHelp: `Without flags it writes a demo: a generator of one record per second, and the log. With a
source or a destination it writes every setting of both with an explanation. Required settings
come first; fill them in to run the pipeline.

Examples:
  conduit pipelines init
  conduit pipelines init copy --source file --destination file`,
		FlagSet: flags,
		Exec: func(ctx context.Context, args []string) error {
			words, err := Positional(flags, args, 1)
			if err != nil {
				return err
			}
			if len(words) == 1 {
				a.name = words[0]
			}
			return initPipeline(ctx, p, a)
		},
	}
}

var pipelineName = texts.Regexp(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$`)

func initPipeline(ctx context.Context, p *Program, a *initArgs) error {
	c, err := a.at.Load(p)
	if err != nil {
		return err
	}
	a.dir = cmp.Or(a.dir, c.Pipelines.Path)
	s, err := draft(ctx, p, c, a)
	if err != nil {
		return err
	}
	if !pipelineName().MatchString(s.ID) {
		return Invalidf("invalid pipeline name %q; use at most 100 letters, digits, '-', '_' and '.'", s.ID)
	}
	if err := os.MkdirAll(a.dir, 0o755); err != nil {
		return fmt.Errorf("cannot create directory: %w", err)
	}
	if err := WriteNew(filepath.Join(a.dir, schemaFile), schemas.PipelineFile.Source(),
		true); err != nil {
		return err
	}
	path := filepath.Join(a.dir, s.ID+".yaml")
	if there, err := os.ReadFile(path); err == nil && bytes.Equal(there, s.Render()) {
		fmt.Fprintf(p.Stdout, "kept     %s\n", terminal.Line(path))
		return nil
	}
	if err := WriteNew(path, s.Render(), a.force); errors.Is(err, fs.ErrExist) {
		return Invalidf("%s exists; --force overwrites it", terminal.Line(path))
	} else if err != nil {
		return err
	}
	fmt.Fprintf(p.Stdout, "created  %s\n", terminal.Line(path))
	if len(s.Missing) > 0 {
		fmt.Fprintf(p.Stdout, "To run it, fill in %s.\n", terminal.OneLine(strings.Join(s.Missing, ", ")))
	}
	return nil
}

func draft(ctx context.Context, p *Program, c config.Config, a *initArgs) (*Draft, error) {
	if a.source == "" && a.destination == "" {
		return DemoDraft(cmp.Or(a.name, "demo-pipeline")), nil
	}
	return draftOf(ctx, p, p.Catalog(c, slog.New(slog.DiscardHandler)), a)
}

func draftOf(ctx context.Context, p *Program, plugins Catalog, a *initArgs) (*Draft, error) {
	source, destination := cmp.Or(a.source, "generator"), cmp.Or(a.destination, "log")
	s := &Draft{
		ID:          cmp.Or(a.name, PlainName(source)+"-to-"+PlainName(destination)),
		Description: "Moves records from " + source + " to " + destination + ".",
	}
	for _, end := range []struct {
		plugin string
		typ    spec.ConnectorType
	}{{source, spec.TypeSource}, {destination, spec.TypeDestination}} {
		parameters, err := plugins.Parameters(ctx, end.plugin, end.typ)
		if err != nil {
			return nil, Invalidf("%v", err)
		}
		s.Add(end.plugin, end.typ, parameters)
		switch name := PlainName(end.plugin); name {
		case "exec": // neither setting is required alone, but either is
			s.Missing = append(s.Missing, "command or shell of "+name+"-"+string(end.typ))
		case "generator":
			s.prefer(flights())
		case "websocket": // unless mode is listen
			s.Missing = append(s.Missing, "url of "+name+"-"+string(end.typ))
		}
	}
	return s, nil
}
