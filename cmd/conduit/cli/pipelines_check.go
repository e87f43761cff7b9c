package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/dryrun"
	"github.com/conduit-agent/conduit/reconcile/watch"
)

// checkReport is the result of a command that checks files.
type checkReport interface {
	print(p *Program) // for people
	failed() bool
}

// checkCommand completes a command that checks the given files and directories, or the directory in the setting
// pipelines.path, and has the flag --json. The command fails if the report has failed.
func checkCommand(
	p *Program, c ffcli.Command, check func(ctx context.Context, c config.Config, paths []string) (checkReport, error),
) *ffcli.Command {
	flags := NewFlags(c.Name)
	at := SettingFlags(flags, "pipelines.path", "connectors.path", "processors.path")
	asJSON := flags.Bool("json", false, "print JSON")
	c.FlagSet = flags
	c.ShortUsage = "conduit pipelines " + c.Name + " [PATH...] [flags]"
	c.Exec = func(ctx context.Context, args []string) error {
		paths, err := Positional(flags, args, len(args))
		if err != nil {
			return err
		}
		settings, err := at.Load(p)
		if err != nil {
			return err
		}
		if len(paths) == 0 {
			paths = []string{settings.Pipelines.Path}
		}
		for i, path := range paths {
			paths[i] = FileAt(settings, path)
		}
		r, err := check(ctx, settings, paths)
		if err != nil {
			return err
		}
		return reportTo(p, r, *asJSON)
	}
	return &c
}

// directoryAt reports whether path is a directory of pipeline files. A directory with the name of a pipeline file
// counts as a file, as in the agent, unless it is the setting pipelines.path.
func directoryAt(c config.Config, path string) (bool, error) {
	directory, err := IsDirectory(path)
	return directory && (path == c.Pipelines.Path || !watch.IsPipelineFile(filepath.Base(path))), err
}

// readFile reads the pipeline file at path.
func readFile(path string) ([]byte, error) {
	if err := noTestFile(path); err != nil {
		return nil, err
	}
	data, err := watch.ReadNamed(path)
	var failed *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, Invalidf("no such file: %s", path)
	case errors.As(err, &failed):
		return nil, fmt.Errorf("cannot read pipeline file: %w", err)
	case err != nil:
		return nil, Invalidf("cannot read %s: %v", path, err)
	}
	return data, nil
}

// noTestFile returns an error if path is a test file, where a pipeline file is wanted.
func noTestFile(path string) error {
	if pipeline, ok := dryrun.PipelineFile(path); ok {
		return Invalidf("%s is a test file, not a pipeline file: name %s, or run its tests with: conduit pipelines test %s",
			path, pipeline, path)
	}
	return nil
}

func reportTo(p *Program, r checkReport, asJSON bool) error {
	if asJSON {
		if err := p.WriteJSON(r); err != nil {
			return err
		}
	} else {
		r.print(p)
	}
	if r.failed() {
		return ErrReported
	}
	return nil
}
