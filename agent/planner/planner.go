// Package planner computes the changes that saved pipeline files would cause, without changing anything.
package planner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/reconcile/files"
	"github.com/conduit-agent/conduit/reconcile/watch"
	"github.com/conduit-agent/conduit/spec"
)

// Planner compares pipeline files, with the files of a request saved among them, with desired state. All fields are
// set before use.
type Planner struct {
	Dir           string // pipelines.path
	Parse         func(path string, data []byte) spec.File
	DeletionGrace time.Duration
	CleanupDelay  time.Duration
	// Guarded reports whether no pipeline is withdrawn although all known files are gone from dir:
	// files.Reconciler.Guarded.
	Guarded func(dir string) bool
	// RawLane returns the state of the raw lane of each source of lines, by connector id; nil: it is not in the plan.
	RawLane func(*spec.Pipeline) map[string]string
	// Notes returns the notes of each source about its settings, by connector id; nil: they are not in the plan.
	Notes func(*spec.Pipeline) map[string][]string
	// Isolated adds notes on isolated destinations to the change from one version to another. Either version may be nil.
	// cleanup is the text of CleanupDelay. nil: they are not in the plan.
	Isolated func(to *spec.PlannedPipeline, before, after *spec.Pipeline, cleanup string)
	// Check returns the problems with a pipeline, in addition to the problems found by parsing.
	Check func(*spec.Pipeline) []spec.Problem
}

// Plan returns the changes. declared and known are the current desired state.
func (p *Planner) Plan(
	ctx context.Context, request spec.PlanRequest, declared []spec.Declaration, known []spec.FileState,
) (*spec.Plan, error) {
	m := &plan{Planner: p, declared: declared, known: known, have: map[string]*spec.Declaration{},
		parsed: map[string]*spec.Parsed{},
		plan: spec.Plan{Pipelines: []spec.PlannedPipeline{}, Problems: []spec.Problem{},
			DeletionGrace: config.DurationText(p.DeletionGrace), CleanupDelay: config.DurationText(p.CleanupDelay)}}
	for i := range declared {
		m.have[declared[i].Pipeline.ID] = &declared[i]
	}
	return m.make(ctx, request)
}

// plan is a plan in progress.
type plan struct {
	*Planner
	declared []spec.Declaration
	known    []spec.FileState

	have   map[string]*spec.Declaration // declared, by id
	snap   watch.Snapshot               // files after the change
	files  []files.Scanned              // content of the files
	parsed map[string]*spec.Parsed      // by path and id
	named  []string                     // paths in the scope of the plan; all if nil
	plan   spec.Plan
}

func (m *plan) make(ctx context.Context, request spec.PlanRequest) (*spec.Plan, error) {
	if err := m.read(ctx, &request); err != nil {
		return nil, err
	}
	m.plan.Files = len(m.files)
	if gone := m.gone(); len(gone) > 0 && m.Guarded(m.snap.Dir) {
		m.plan.Held = gone
		return &m.plan, nil
	}
	changes := files.Decide(m.files, m.declared, m.known, time.Now())
	m.pipelines(changes)
	m.problems(changes)
	return &m.plan, nil
}

// gone returns the paths of the known files if all of them would be gone.
func (m *plan) gone() []string {
	known := make(map[string]*spec.FileState, len(m.known))
	for i := range m.known {
		known[m.known[i].Path] = &m.known[i]
	}
	return files.AllGone(known, m.snap.Files)
}

// read collects the files after the change, and parses them. Files that replace all others do so in the existing
// directory.
func (m *plan) read(ctx context.Context, request *spec.PlanRequest) (err error) {
	m.snap, err = snapshot(ctx, m.Dir)
	switch {
	case request.Replace:
		m.snap.Files = nil
	case err != nil && (len(request.Files) == 0 || !errors.Is(err, fs.ErrNotExist)):
		return err
	}
	for i, f := range request.Files {
		if problem := m.refuse(f.Path); problem != "" {
			return &spec.Error{Kind: spec.ErrInvalid, Code: spec.CodeInvalid, Field: fmt.Sprintf("files[%d].path", i),
				Message: fmt.Sprintf("%q %s", f.Path, problem)}
		}
		if !request.Replace {
			m.named = append(m.named, f.Path)
		}
		m.add(watch.File{Path: f.Path, Data: []byte(f.Content)})
	}
	sort.Slice(m.snap.Files, func(i, j int) bool { return m.snap.Files[i].Path < m.snap.Files[j].Path })
	for _, f := range m.snap.Files {
		seen := files.Scanned{Path: f.Path, Hash: f.Hash, Err: f.Err}
		if f.Err == nil {
			seen.File = m.Parse(f.Path, f.Data)
		}
		m.files = append(m.files, seen)
	}
	return nil
}

// refuse returns the reason why a file cannot be in a plan.
func (m *plan) refuse(path string) string {
	switch {
	case !watch.IsPipelineFile(path):
		return "is not read from pipelines.path: the name of a pipeline file ends in .yaml or .yml and has no " +
			"directory before it"
	case slices.Contains(m.named, path):
		return "appears twice"
	}
	return ""
}

// add adds a file, and replaces one with the same name.
func (m *plan) add(file watch.File) {
	m.snap.Files = slices.DeleteFunc(m.snap.Files, func(other watch.File) bool { return other.Path == file.Path })
	m.snap.Files = append(m.snap.Files, file)
}

// wanted reports whether the file at path is in the scope of the plan.
func (m *plan) wanted(path string) bool { return m.named == nil || slices.Contains(m.named, path) }

func (m *plan) pipelines(changes *spec.Changes) {
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
		m.pipeline(c.ID, m.have[c.ID].Owner, nil)
	}
	sort.Slice(m.plan.Pipelines, func(i, j int) bool { return m.plan.Pipelines[i].ID < m.plan.Pipelines[j].ID })
}

// pipeline adds the changes from the declared pipeline to the one that owner wants.
func (m *plan) pipeline(id string, owner spec.Owner, want *spec.Pipeline) {
	var before *spec.Pipeline
	one := spec.PlannedPipeline{ID: id, Action: spec.ActionChange, Effect: spec.EffectNone, File: owner.Path,
		Line: owner.Line}
	if have := m.have[id]; have != nil && have.Withdrawn.IsZero() {
		before, one.From = &have.Pipeline, have.Want()
	} else {
		one.Action = spec.ActionAdd
	}
	if want == nil {
		one.Action, one.Line = spec.ActionRemove, 0
	} else {
		one.To = want.Status
		if m.RawLane != nil {
			one.RawLane = m.RawLane(want)
		}
		if m.Notes != nil {
			one.Notes = m.Notes(want)
		}
	}
	if m.Isolated != nil {
		m.Isolated(&one, before, want, m.plan.CleanupDelay)
	}
	parsed := m.parsed[owner.Path+"\x00"+id]
	for _, change := range spec.Diff(before, want) {
		addChange(&one, change, parsed)
	}
	if len(one.Changes) == 0 || !m.wanted(owner.Path) && !m.wanted(m.owner(id)) {
		return
	}
	m.plan.Pipelines = append(m.plan.Pipelines, one)
}

// owner returns the path of the file that currently declares id.
func (m *plan) owner(id string) string {
	if have := m.have[id]; have != nil {
		return have.Owner.Path
	}
	return ""
}

// addChange adds one change. The place is known only for objects in a file.
func addChange(one *spec.PlannedPipeline, change spec.Change, parsed *spec.Parsed) {
	c := spec.PlannedChange{Change: change}
	if parsed != nil {
		mark := parsed.Place(change)
		c.Line, c.Column = mark.Line, mark.Column
	}
	one.Changes = append(one.Changes, c)
	runs := one.From == spec.StatusRunning || one.To == spec.StatusRunning
	if (runs || change.Effect == spec.EffectPositionLost) && change.Effect.Severity() > one.Effect.Severity() {
		one.Effect = change.Effect
	}
}

// problems adds the problems with the files: newly found ones, known ones that persist, likely mistakes of the author,
// and problems that would keep their pipelines from running.
func (m *plan) problems(changes *spec.Changes) {
	states := map[string]spec.FileState{}
	for _, f := range append(slices.Clone(m.known), changes.Files...) {
		states[f.Path] = f
	}
	for i := range m.files {
		f := &m.files[i]
		if !m.wanted(f.Path) {
			continue
		}
		found := slices.Clone(states[f.Path].Problems)
		for _, e := range changes.Events {
			if code := warnings[e.Reason]; e.File == f.Path && code != "" {
				found = append(found, m.warning(&e, code))
			}
		}
		for j := range f.Pipelines {
			found = append(found, m.needs(f.Path, &f.Pipelines[j])...)
		}
		sort.SliceStable(found, func(i, j int) bool {
			a, b := &found[i], &found[j]
			return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column)) < 0
		})
		m.plan.Problems = append(m.plan.Problems, found...)
	}
}

// warnings are the codes of warnings by the reason of their event.
var warnings = map[string]string{
	"PositionLost": "pipeline.position_lost", "LooksRenamed": "pipeline.looks_renamed",
}

// warning returns the warning for an event about a change of a pipeline.
func (m *plan) warning(e *spec.Event, code string) spec.Problem {
	p := spec.Problem{Path: "/id", Severity: spec.SeverityWarning, Code: code, Message: e.Message}
	return m.parsed[e.File+"\x00"+e.Pipeline].Locate(p, e.File)
}

// needs returns the problems that would keep a pipeline from running. If the pipeline is declared stopped, they are
// only warnings.
func (m *plan) needs(path string, parsed *spec.Parsed) []spec.Problem {
	var found []spec.Problem
	for _, problem := range m.Check(&parsed.Pipeline) {
		if parsed.Pipeline.Status == spec.StatusStopped {
			problem.Severity = spec.SeverityWarning
		}
		problem.Message = withoutValues(problem.Message, &parsed.Pipeline)
		found = append(found, parsed.Locate(problem, path))
	}
	return found
}

// withoutValues cuts the value of a setting off the end of a message. The owner of the file finds the value by the
// place; others may not see it.
func withoutValues(message string, p *spec.Pipeline) string {
	cut := func(settings map[string]string) {
		for value := range maps.Values(settings) {
			value = strings.TrimSpace(value)
			message = strings.TrimSuffix(strings.TrimSuffix(message, ", not "+strconv.Quote(value)), ", not "+value)
		}
	}
	for i := range p.Connectors {
		cut(p.Connectors[i].Settings)
	}
	cut(p.DeadLetterQueue.Settings)
	return message
}
