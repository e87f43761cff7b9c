package planner

import (
	"cmp"
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/reconcile/files"
	"github.com/conduit-agent/conduit/reconcile/watch"
	"github.com/conduit-agent/conduit/spec"
)

// Offline plans for an agent with these settings that has not started. An agent may be using the store meanwhile.
// check is Planner.Check, and isolated is Planner.Isolated. References are not resolved, because the agent may see
// other variables and files.
func Offline(
	ctx context.Context, c config.Config, parser spec.Parser, request spec.PlanRequest,
	check func(*spec.Pipeline) []spec.Problem, rawLane func(*spec.Pipeline) map[string]string,
	notes func(*spec.Pipeline) map[string][]string,
	isolated func(to *spec.PlannedPipeline, before, after *spec.Pipeline, cleanup string),
) (*spec.Plan, error) {
	declared, known, err := store.Peek(ctx, c.DB.SQLite.Path)
	if err != nil {
		return nil, err
	}
	p := New(c.Pipelines, parser)
	p.Guarded, p.Check, p.RawLane, p.Notes = new(files.Reconciler).Guarded, check, rawLane, notes
	p.Isolated = isolated
	return p.Plan(ctx, request, declared, known)
}

// New returns a planner for these settings. The caller sets its functions.
func New(c config.Pipelines, parser spec.Parser) *Planner {
	return &Planner{Dir: c.Path, Parse: parser.File, DeletionGrace: c.DeletionGrace, CleanupDelay: c.CleanupDelay}
}

// Files reads the pipeline files of a directory, or one file, for a request.
func Files(ctx context.Context, path string) ([]spec.PlanFile, error) {
	files, err := FilesAt(ctx, path)
	if err != nil {
		return nil, err
	}
	list := make([]spec.PlanFile, len(files))
	for i, f := range files {
		if f.Err != nil {
			return nil, fmt.Errorf("cannot read pipeline file %s: %w", f.Path, f.Err)
		}
		if !utf8.Valid(f.Data) {
			return nil, fmt.Errorf("cannot read pipeline file %s: it is not UTF-8", f.Path)
		}
		list[i] = spec.PlanFile{Path: f.Path, Content: string(f.Data)}
	}
	return list, nil
}

// FilesAt returns the pipeline files of a directory, or one file, as the agent sees them, including those that it
// cannot read.
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
