package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/agent/planner"
	"github.com/conduit-agent/conduit/agent/reference"
	"github.com/conduit-agent/conduit/agent/sqlitefile"
	"github.com/conduit-agent/conduit/cmd/conduit/cli"
	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/reconcile/watch"
	"github.com/conduit-agent/conduit/spec"
)

// pipelines checks the directory of pipeline files, the files, and what they refer to.
func (e *examination) pipelines(ctx context.Context) {
	dir := e.config.Pipelines.Path
	files, err := planner.FilesAt(ctx, dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.add("pipeline files", Error, "'conduit init' makes the directory; or set pipelines.path", "there is no directory %s", dir)
		return
	case err != nil:
		e.add("pipeline files", Error, "let the agent's user read it", "%v", err)
		return
	}
	if kind, network := sqlitefile.FileSystem(dir); network {
		e.add("pipelines directory", Warning, "changes made on other machines are found by polling; a local directory is followed at once", "%s is on %s", dir, kind)
	} else {
		e.add("pipelines directory", OK, "", "changes in %s are followed at once (%s)", dir, cmp.Or(kind, "a file system without a name here"))
	}
	before, broken, pipelines := len(e.findings), 0, 0
	for _, f := range files {
		parsed, ok := e.file(f)
		if !ok {
			broken++
		}
		pipelines += len(parsed)
		for i := range parsed {
			e.references(ctx, &parsed[i])
		}
	}
	if !slices.ContainsFunc(e.findings[before:], func(f Finding) bool { return f.Check == "references" }) {
		e.add("references", OK, "", "all lead to a value")
	}
	if broken == 0 {
		e.add("pipeline files", OK, "", "%s with %s in %s", terminal.Count(len(files), "file"), terminal.Count(pipelines, "pipeline"), dir)
	}
}

// file returns the pipelines of a file, and whether the file has no error.
func (e *examination) file(f watch.File) ([]spec.Parsed, bool) {
	if f.Err != nil {
		e.add("pipeline files", Error, "", "%v", f.Err)
		return nil, false
	}
	parsed := spec.Parser{Env: os.LookupEnv}.File(f.Path, f.Data)
	if cli.HasErrors(parsed.Problems) {
		var lines []string
		for _, p := range parsed.Problems {
			lines = append(lines, fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message))
		}
		e.add("pipeline files", Error, "'conduit pipelines validate' shows all of it; what ran before goes on", "%s", strings.Join(lines, "; "))
		return parsed.Pipelines, false
	}
	return parsed.Pipelines, true
}

// references checks what the settings of a pipeline refer to, and then the plugins that it names.
func (e *examination) references(ctx context.Context, p *spec.Parsed) {
	_, problems := (&reference.Resolver{}).Resolve(ctx, &spec.Declaration{Pipeline: p.Pipeline})
	for _, problem := range problems {
		e.add("references", Warning, "set it for the agent: for a service in its unit, see systemctl edit conduit", "pipeline %s: %s", p.Pipeline.ID, problem.Message)
	}
	if p.Pipeline.Status == spec.StatusStopped {
		return
	}
	for _, problem := range e.catalog.Check(ctx, &p.Pipeline) {
		if problem.Severity == spec.SeverityError {
			e.add("plugins", Error, "'conduit plugins ls' lists those there are", "pipeline %s: %s", p.Pipeline.ID, problem.Message)
		}
	}
}

// plugins checks the directory of executables.
func (e *examination) plugins(ctx context.Context) {
	installed, problems := e.catalog.Plugins(ctx)
	for _, p := range problems {
		e.add("plugins", Warning, "replace or remove the file", "%s: %s", p.Path, p.Reason)
	}
	e.add("plugins", OK, "", "%s can be used", terminal.Count(len(installed), "plugin"))
}
