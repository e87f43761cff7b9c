package agent

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/reconcile"
	"github.com/conduit-agent/conduit/reconcile/watch"
	"github.com/conduit-agent/conduit/spec"
)

// Plan compares pipeline files, with those of the request saved among them, with desired
// state. It reports as problems, too, what would keep their pipelines from running:
// plugins that do not exist, settings they refuse, references that lead nowhere.
func (a *Agent) Plan(ctx context.Context, request rest.PlanRequest) (*rest.Plan, error) {
	declared, err := a.Store.Declarations(ctx)
	if err != nil {
		return nil, err
	}
	known, err := a.Store.FileStates(ctx)
	if err != nil {
		return nil, err
	}
	m := newPlanner(a.options.Config, declared, known)
	m.wary = a.Files.Wary
	rescan := sync.OnceFunc(func() {
		look, cancel := context.WithTimeout(ctx, specifyTimeout)
		defer cancel()
		a.Executables.Rescan(look)
	})
	m.check = func(p *spec.Pipeline) []spec.Problem {
		problems := checkPlugins(a.Plugins, p)
		if slices.ContainsFunc(problems, func(p spec.Problem) bool { return p.Code == codePluginNotFound }) {
			rescan() // it may be so new that nobody looked
			problems = checkPlugins(a.Plugins, p)
		}
		_, lost := spec.Resolve(p, a.inputs.lookup(ctx))
		return append(problems, lost...)
	}
	return m.make(ctx, request)
}

// MakePlan is Plan for an agent that is yet to start. One may be using the store meanwhile.
// check returns what is wrong with the plugins of a pipeline; references are not looked up,
// because the agent may see other variables and files.
func MakePlan(ctx context.Context, c config.Config, request rest.PlanRequest, check func(*spec.Pipeline) []spec.Problem) (*rest.Plan, error) {
	declared, known, err := store.Peek(ctx, c.DB.SQLite.Path)
	if err != nil {
		return nil, err
	}
	m := newPlanner(c, declared, known)
	m.wary, m.check = new(reconcile.Files).Wary, check
	return m.make(ctx, request)
}

// PipelineFiles reads the pipeline files of a directory, or one file, as the agent does.
func PipelineFiles(ctx context.Context, path string) ([]rest.PlanFile, error) {
	files, err := FilesAt(ctx, path)
	if err != nil {
		return nil, err
	}
	list := make([]rest.PlanFile, len(files))
	for i, f := range files {
		if f.Err != nil {
			return nil, fmt.Errorf("cannot read pipeline file %s: %w", f.Path, f.Err)
		}
		if !utf8.Valid(f.Data) {
			return nil, fmt.Errorf("cannot read pipeline file %s: it is not UTF-8", f.Path)
		}
		list[i] = rest.PlanFile{Path: f.Path, Content: string(f.Data)}
	}
	return list, nil
}

// FilesAt returns the pipeline files of a directory, or one file, as the agent sees them,
// those that it cannot read among them.
func FilesAt(ctx context.Context, path string) ([]watch.File, error) {
	snap, err := snapshot(ctx, path)
	return snap.Files, err
}

func snapshot(ctx context.Context, path string) (snap watch.Snapshot, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err = (&watch.Watcher{Dir: path}).Run(ctx, func(s watch.Snapshot) { snap = s; cancel() })
	return snap, cmp.Or(err, snap.Err)
}
