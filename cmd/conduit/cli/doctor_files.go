package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/agent/planner"
	"github.com/conduit-agent/conduit/agent/sqlitefile"
	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/reconcile/watch"
	"github.com/conduit-agent/conduit/spec"
)

// pipelines checks the directory of pipeline files, the files, and the targets of their references.
func (e *examination) pipelines(ctx context.Context) {
	dir := e.config.Pipelines.Path
	files, err := planner.FilesAt(ctx, dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.add("pipeline files", Error, "run 'conduit init' to create the directory for a new agent; for an agent that "+
			"exists, run doctor in its working directory", "directory %s does not exist", absolute(dir))
		return
	case err != nil:
		e.add("pipeline files", Error, "give the agent's user read access", "%v", err)
		return
	}
	if kind, network := sqlitefile.FileSystem(dir); network {
		e.add("pipelines directory", Warning,
			"changes from other hosts are found by polling; use a local directory to detect changes at once",
			"%s is on %s",
			dir, kind)
	} else {
		e.add("pipelines directory", OK, "", "changes in %s are detected at once (%s)", dir,
			cmp.Or(kind, "unknown file system"))
	}
	e.directoriesBelow(dir)
	before, broken, pipelines := len(e.findings), 0, 0
	var claims planner.Claims
	for _, f := range files {
		f.Path = filepath.Join(dir, f.Path)
		parsed, ok := e.file(f)
		if !ok {
			broken++
		}
		pipelines += len(parsed)
		for i := range parsed {
			for _, problem := range claims.Add(f.Path, &parsed[i]) {
				e.add("pipeline files", Error, "", "%s", placed(&problem))
				broken++
			}
			e.references(ctx, f.Path, &parsed[i])
		}
	}
	if !slices.ContainsFunc(e.findings[before:], func(f Finding) bool { return f.Check == "references" }) {
		e.add("references", OK, "", "all resolve to a value; this binary has %s", e.Parts.References)
	}
	if broken == 0 {
		e.add("pipeline files", OK, "", "%s with %s in %s", terminal.Count(len(files), "file"),
			terminal.Count(pipelines, "pipeline"), dir)
	}
}

// file returns the pipelines of a file, and whether the file has no errors.
func (e *examination) file(f watch.File) ([]spec.Parsed, bool) {
	if f.Err != nil {
		e.add("pipeline files", Error, "", "%s:1:1: %v", f.Path, f.Err)
		return nil, false
	}
	parsed := e.Parser().File(f.Path, f.Data)
	var lines []string
	for _, p := range parsed.Problems {
		lines = append(lines, placed(&p))
	}
	switch {
	case HasErrors(parsed.Problems):
		e.add("pipeline files", Error, "run 'conduit pipelines validate' for details; running pipelines are not "+
			"affected", "%s",
			strings.Join(lines, "; "))
		return parsed.Pipelines, false
	case len(lines) > 0:
		e.add("pipeline files", Warning, "", "%s", strings.Join(lines, "; "))
	}
	return parsed.Pipelines, true
}

// placed returns a problem with its place.
func placed(p *spec.Problem) string {
	return fmt.Sprintf("%s:%d:%d: %s", p.File, max(p.Line, 1), max(p.Column, 1), p.Message)
}

// directoriesBelow warns of pipeline files in directories where the agent does not look for them.
func (e *examination) directoriesBelow(dir string) {
	below, _ := filepath.Glob(filepath.Join(dir, "[^.]*", "*"))
	var unread []string
	for _, path := range below {
		if watch.IsPipelineFile(filepath.Base(path)) {
			rel, _ := filepath.Rel(dir, path)
			unread = append(unread, rel)
		}
	}
	if len(unread) > 0 {
		e.add("pipeline files", Warning, "move pipeline files into the directory itself",
			"subdirectories of %s are not read: %s", dir, strings.Join(unread, ", "))
	}
}

// references checks the targets of references in the settings of a pipeline in the file at path, and then the plugins
// that it names.
func (e *examination) references(ctx context.Context, path string, p *spec.Parsed) {
	for _, problem := range e.resolve(ctx, &p.Pipeline) {
		problem = p.Locate(problem, path)
		e.add("references", Warning, "set it for the agent: for a service in its unit, see systemctl edit conduit",
			"%s", placed(&problem))
	}
	if p.Pipeline.Status == spec.StatusStopped {
		return
	}
	notes := e.catalog.Notes(ctx, &p.Pipeline)
	for _, id := range slices.Sorted(maps.Keys(notes)) {
		for _, note := range notes[id] {
			e.add("sources", Warning, "correct the setting, unless this is as it should be", "%s: pipeline %q, source %s: %s",
				path, p.Pipeline.ID, id, note)
		}
	}
	for _, problem := range e.catalog.Check(ctx, &p.Pipeline) {
		if problem.Severity == spec.SeverityError {
			problem = p.Locate(problem, path)
			advice := "'conduit plugins describe PLUGIN' lists its settings"
			if strings.HasSuffix(problem.Code, ".plugin_not_found") {
				advice = "put the plugin into connectors.path or processors.path, or correct its name"
			}
			e.add("plugins", Error, advice, "%s", placed(&problem))
		}
	}
}

// plugins checks the directory of executables.
func (e *examination) plugins(ctx context.Context) {
	installed, problems := e.catalog.Plugins(ctx)
	for _, p := range problems {
		e.add("plugins", Warning, "replace or remove the file", "%s: %s", p.Path, p.Reason)
	}
	e.add("plugins", OK, "", "%s found", terminal.Count(len(installed), "plugin"))
}
