package cli

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sort"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/planner"
	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/reconcile/watch"
	"github.com/conduit-agent/conduit/spec"
)

func validateCommand(p *Program) *ffcli.Command {
	return checkCommand(p, ffcli.Command{
		Name:      "validate",
		ShortHelp: "Check pipeline files without running them.",
		LongHelp: `Checks files, and all *.yaml and *.yml files of directories; the default is the setting
pipelines.path. Every problem is one line, file:line:column: severity: message, with the path
relative to the working directory; problems from the agent have the path relative to pipelines.path.
Subdirectories are not read, as by the agent; a last line names pipeline files in them.
The exit code is 2 when there are errors.

Example:
  conduit pipelines validate pipelines/orders.yaml`,
	}, func(ctx context.Context, c config.Config, paths []string) (checkReport, error) {
		return validate(ctx, p, c, paths)
	})
}

func validate(ctx context.Context, p *Program, c config.Config, paths []string) (*report, error) {
	files, err := pipelineFiles(ctx, c, paths)
	if err != nil {
		return nil, err
	}
	r := &report{program: p, Files: []fileReport{}, plugins: p.Catalog(c, slog.New(slog.DiscardHandler))}
	if c.Cluster.Name != "" && p.Parts.Cluster != nil {
		r.inFile = p.Parts.Cluster.InFile
	}
	for _, f := range files {
		r.check(ctx, f)
	}
	for _, problem := range r.claims.Owners() {
		i := slices.IndexFunc(r.Files, func(f fileReport) bool { return f.Path == problem.File })
		r.add(&r.Files[i], problem)
	}
	for _, path := range paths {
		if directory, err := directoryAt(c, path); err == nil && directory {
			r.NotRead = append(r.NotRead, filesBelow(path, watch.IsPipelineFile, pipelinesField)...)
		}
	}
	slices.Sort(r.NotRead)
	r.NotRead = slices.DeleteFunc(slices.Compact(r.NotRead), r.has)
	return r, nil
}

// has reports whether the file at path is in the report.
func (r *report) has(path string) bool {
	return slices.ContainsFunc(r.Files, func(f fileReport) bool {
		return location(filepath.Split(f.Path)) == location(filepath.Split(path))
	})
}

func (r *report) failed() bool { return r.Errors > 0 }

// pipelineFile is a file to check.
type pipelineFile struct {
	path    string
	content []byte
	err     error // why it cannot be read
}

// pipelineFiles reads the files at paths, and the files in directories as the agent does. It reads each file once.
func pipelineFiles(ctx context.Context, c config.Config, paths []string) ([]pipelineFile, error) {
	var files []pipelineFile
	seen := map[string]bool{}
	add := func(dir, name string, f pipelineFile) {
		if at := location(dir, name); !seen[at] {
			seen[at] = true
			files = append(files, f)
		}
	}
	for _, path := range paths {
		directory, err := directoryAt(c, path)
		if err != nil {
			return nil, err
		}
		if !directory {
			if err := noTestFile(path); err != nil {
				return nil, err
			}
			content, err := watch.ReadNamed(path)
			add(filepath.Dir(path), filepath.Base(path), pipelineFile{path, content, err})
			continue
		}
		all, err := planner.FilesAt(ctx, path)
		if err != nil {
			return nil, err
		}
		for _, f := range all {
			add(path, f.Path, pipelineFile{filepath.Join(path, f.Path), f.Data, f.Err})
		}
	}
	return files, nil
}

// location returns the same text for all paths that lead to the same name in a directory.
func location(dir, name string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	path := filepath.Join(dir, name)
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// report is the result of checking files.
type report struct {
	Files    []fileReport `json:"files"`
	Errors   int          `json:"errors"`
	Warnings int          `json:"warnings"`
	NotRead  []string     `json:"notRead,omitempty"` // pipeline files in subdirectories

	program *Program
	inFile  func(path string, f spec.File) spec.File // adds the problems of members of a cluster; nil: no cluster
	plugins Catalog
	claims  planner.Claims
}

type fileReport struct {
	Path      string         `json:"path"`
	Pipelines []string       `json:"pipelines"` // ids of pipelines without errors in the file
	Problems  []spec.Problem `json:"problems"`
	Notes     []string       `json:"notes,omitempty"` // facts that are in order, and may surprise
}

// check adds a file to the report.
func (r *report) check(ctx context.Context, file pipelineFile) {
	path := file.path
	parsed := r.program.Parser().File(path, file.content)
	if r.inFile != nil {
		parsed = r.inFile(path, parsed)
	}
	if file.err != nil {
		parsed.Problems = []spec.Problem{{File: path, Severity: spec.SeverityError, Code: "file.unreadable",
			Message: "cannot read the file: " + file.err.Error()}}
	}
	f := fileReport{Path: path, Pipelines: []string{}, Problems: append([]spec.Problem{}, parsed.Problems...)}
	for i := range parsed.Pipelines {
		one := &parsed.Pipelines[i]
		f.Pipelines = append(f.Pipelines, one.Pipeline.ID)
		if n := one.Pipeline.Instances; n.Several() {
			f.Notes = append(f.Notes, fmt.Sprintf("pipeline %q: instances %s applies only to a "+
				"cluster; an agent outside a cluster runs one instance", one.Pipeline.ID, n))
		}
		f.Problems = append(f.Problems, r.claims.Add(path, one)...)
		f.Problems = append(f.Problems, unresolved(ctx, r.program, path, one)...)
		for _, problem := range r.plugins.Check(ctx, &one.Pipeline) {
			if one.Pipeline.Status == spec.StatusStopped { // it only matters once the pipeline should run
				problem.Severity = spec.SeverityWarning
			}
			f.Problems = append(f.Problems, one.Locate(problem, path))
		}
	}
	all := f.Problems
	f.Problems = []spec.Problem{}
	r.add(&f, all...)
	r.Files = append(r.Files, f)
}

// add adds problems to the problems of a file, which are sorted by line.
func (r *report) add(f *fileReport, problems ...spec.Problem) {
	f.Problems = append(f.Problems, problems...)
	sort.SliceStable(f.Problems, func(i, j int) bool { return f.Problems[i].Line < f.Problems[j].Line })
	for _, problem := range problems {
		if problem.Severity == spec.SeverityError {
			r.Errors++
		} else {
			r.Warnings++
		}
	}
}

// unresolved warns of references that cannot be resolved here. The agent may have other variables.
func unresolved(ctx context.Context, p *Program, path string, one *spec.Parsed) (all []spec.Problem) {
	for _, problem := range p.resolve(ctx, &one.Pipeline) {
		problem.Severity = spec.SeverityWarning
		problem.Message += " (checked in this environment; the agent may have other variables and files)"
		all = append(all, one.Locate(problem, path))
	}
	return all
}

// print writes the report for people.
func (r *report) print(p *Program) {
	pipelines := 0
	for _, f := range r.Files {
		pipelines += len(f.Pipelines)
		p.PrintProblems(f.Problems)
		for _, note := range f.Notes {
			fmt.Fprintf(p.Stdout, "%s: %s\n", terminal.Line(f.Path), note)
		}
	}
	fmt.Fprintf(p.Stdout, "%s, %s: %s, %s\n", terminal.Count(len(r.Files), "file"), terminal.Count(pipelines,
		"pipeline"), terminal.Count(r.Errors, "error"), terminal.Count(r.Warnings, "warning"))
	printBelow(p, "validate", r.NotRead)
}
