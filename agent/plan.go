package agent

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/reconcile"
	"github.com/conduit-agent/conduit/reconcile/watch"
	"github.com/conduit-agent/conduit/spec"
)

// Plan is what pipeline files would change if the agent read them now.
type Plan struct {
	Pipelines []PlannedPipeline `json:"pipelines"` // that change, by id
	Problems  []spec.Problem    `json:"problems"`  // of the files
}

// PlannedPipeline is how one pipeline would change.
type PlannedPipeline struct {
	ID      string          `json:"id"`
	Action  spec.Action     `json:"action"`
	Effect  spec.Effect     `json:"effect"` // the severest of its changes, none if it neither runs nor will
	From    spec.Status     `json:"from,omitempty"`
	To      spec.Status     `json:"to,omitempty"`
	File    string          `json:"file"`           // that declares it, or did
	Line    int             `json:"line,omitempty"` // of the pipeline in File
	Changes []PlannedChange `json:"changes"`
}

// PlannedChange is a Change and where in the file it stands.
type PlannedChange struct {
	spec.Change
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
}

// MakePlan compares pipeline files with the desired state in the store, which an agent
// may be using. Without paths the files are those of pipelines.path. A directory stands
// for what pipelines.path would hold instead; files stand for being saved there, and
// then the plan is about what they declare, or declared before.
func MakePlan(ctx context.Context, c config.Config, paths []string) (*Plan, error) {
	declared, known, err := store.Peek(ctx, c.DB.SQLite.Path)
	if err != nil {
		return nil, err
	}
	m := &planner{declared: map[string]*spec.Declaration{}, shown: map[string]string{}, parsed: map[string]*spec.Parsed{},
		plan: Plan{Pipelines: []PlannedPipeline{}, Problems: []spec.Problem{}}}
	for i := range declared {
		m.declared[declared[i].Pipeline.ID] = &declared[i]
	}
	if err := m.look(ctx, c.Pipelines.Path, paths); err != nil {
		return nil, err
	}
	changes := reconcile.Decide(m.files, declared, known, time.Now())
	m.pipelines(changes)
	m.problems(known, changes.Files)
	return &m.plan, nil
}

// planner makes a Plan.
type planner struct {
	declared map[string]*spec.Declaration // by id
	files    []reconcile.Seen
	shown    map[string]string       // path as the agent knows it → as the user does
	parsed   map[string]*spec.Parsed // by path and id
	named    []string                // paths that the plan is about; all when nil
	plan     Plan
}

// look reads the files.
func (m *planner) look(ctx context.Context, dir string, paths []string) error {
	var files []string
	for _, path := range paths {
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return fmt.Errorf("cannot read pipeline files: %w", err)
		case !info.IsDir():
			files = append(files, path)
		case len(paths) > 1:
			return fmt.Errorf("cannot plan for %s and more: %w", path, errOneDirectory)
		default:
			dir = path
		}
	}
	if err := m.add(ctx, dir, dir); err != nil && (len(files) == 0 || !os.IsNotExist(err)) {
		return err
	}
	for _, file := range files {
		m.named = append(m.named, filepath.Base(file))
		if err := m.add(ctx, file, filepath.Dir(file)); err != nil {
			return err
		}
	}
	return nil
}

// errOneDirectory is a mistake of the caller.
var errOneDirectory = fmt.Errorf("%w: name files, or one directory", fs.ErrInvalid)

// add reads a directory or a file, the way the agent does.
func (m *planner) add(ctx context.Context, path, dir string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var snap watch.Snapshot
	err := (&watch.Watcher{Dir: path}).Run(ctx, func(s watch.Snapshot) { snap = s; cancel() })
	if err = cmp.Or(err, snap.Err); err != nil {
		return err
	}
	for _, file := range snap.Files {
		seen := reconcile.Seen{Path: file.Path, Hash: file.Hash, Err: file.Err}
		if file.Err == nil {
			seen.File = spec.ParseFile(file.Path, file.Data)
		}
		m.shown[file.Path] = filepath.Join(dir, file.Path)
		m.files = slices.DeleteFunc(m.files, func(other reconcile.Seen) bool { return other.Path == file.Path })
		m.files = append(m.files, seen)
	}
	return nil
}

// wanted reports whether the plan is about the file at path.
func (m *planner) wanted(path string) bool { return m.named == nil || slices.Contains(m.named, path) }

func (m *planner) pipelines(changes *spec.Changes) {
	for i := range m.files {
		for j := range m.files[i].Pipelines {
			p := &m.files[i].Pipelines[j]
			m.parsed[m.files[i].Path+"\x00"+p.Pipeline.ID] = p
		}
	}
	for i := range changes.Declare {
		c := &changes.Declare[i]
		m.pipeline(c.Pipeline.ID, c.Owner, &c.Pipeline)
	}
	for _, c := range changes.Withdraw {
		m.pipeline(c.ID, m.declared[c.ID].Owner, nil)
	}
	slices.SortFunc(m.plan.Pipelines, func(a, b PlannedPipeline) int { return cmp.Compare(a.ID, b.ID) })
}

// pipeline adds what makes of the declared pipeline the one that owner wants.
func (m *planner) pipeline(id string, owner spec.Owner, want *spec.Pipeline) {
	var before *spec.Pipeline
	one := PlannedPipeline{ID: id, Action: spec.ActionChange, Effect: spec.EffectNone, File: m.show(owner.Path), Line: owner.Line}
	if have := m.declared[id]; have != nil && have.Withdrawn.IsZero() {
		before, one.From = &have.Pipeline, have.Want()
	} else {
		one.Action = spec.ActionAdd
	}
	if want == nil {
		one.Action, one.Line = spec.ActionRemove, 0
	} else {
		one.To = want.Status
	}
	parsed := m.parsed[owner.Path+"\x00"+id]
	for _, change := range spec.Diff(before, want) {
		one.add(change, parsed)
	}
	if len(one.Changes) == 0 || !m.wanted(owner.Path) && !m.wanted(m.owner(id)) {
		return
	}
	m.plan.Pipelines = append(m.plan.Pipelines, one)
}

// owner returns the path of the file that declares id so far.
func (m *planner) owner(id string) string {
	if have := m.declared[id]; have != nil {
		return have.Owner.Path
	}
	return ""
}

// add adds one change. Where it stands is only known of what is in a file.
func (one *PlannedPipeline) add(change spec.Change, parsed *spec.Parsed) {
	c := PlannedChange{Change: change}
	if parsed != nil {
		mark := parsed.Place(change)
		c.Line, c.Column = mark.Line, mark.Column
	}
	one.Changes = append(one.Changes, c)
	runs := one.From == spec.StatusRunning || one.To == spec.StatusRunning
	if (runs || change.Effect == spec.EffectPositionLost) && severity(change.Effect) > severity(one.Effect) {
		one.Effect = change.Effect
	}
}

func severity(e spec.Effect) int {
	return slices.Index([]spec.Effect{spec.EffectNone, spec.EffectInPlace, spec.EffectRestart, spec.EffectPositionLost}, e)
}

// show returns the path of a file as the user knows it; of one that is gone, as the
// agent does.
func (m *planner) show(path string) string { return cmp.Or(m.shown[path], path) }

// problems adds what is wrong with the files: what is newly found, and what is known
// and still so.
func (m *planner) problems(known, changed []spec.FileState) {
	states := map[string]spec.FileState{}
	for _, f := range append(slices.Clone(known), changed...) {
		states[f.Path] = f
	}
	for _, f := range m.files {
		if !m.wanted(f.Path) {
			continue
		}
		for _, p := range states[f.Path].Problems {
			p.File = m.show(f.Path)
			m.plan.Problems = append(m.plan.Problems, p)
		}
	}
}
