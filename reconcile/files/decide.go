package files

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/spec"
)

// Scanned is a pipeline file in the last scan.
type Scanned struct {
	Path string
	Hash string // of the content; "" with Err
	Err  error  // why it could not be read
	spec.File
}

// Decide returns the changes that make desired state match the files. files must be all files of a complete scan:
// pipelines of missing files are withdrawn. Decide is pure; once its changes are applied it returns none.
func Decide(files []Scanned, declared []spec.Declaration, known []spec.FileState, now time.Time) *spec.Changes {
	d := decision{now: now, scanned: map[string]*Scanned{}, declared: map[string]*spec.Declaration{},
		known:  map[string]*spec.FileState{},
		claims: map[string][]claim{}, problems: map[string][]spec.Problem{}, restored: map[string]bool{}}
	for i := range declared {
		d.declared[declared[i].Pipeline.ID] = &declared[i]
	}
	for i := range known {
		d.known[known[i].Path] = &known[i]
	}
	for i := range files {
		d.collect(&files[i])
	}
	for _, id := range sortedKeys(d.claims) {
		d.assign(id, d.claims[id])
	}
	for i := range declared {
		d.unclaimed(&declared[i])
	}
	d.warnOfRenames(declared)
	for i := range files {
		d.record(&files[i])
	}
	for i := range known {
		if d.scanned[known[i].Path] == nil {
			d.changes.Forget = append(d.changes.Forget, known[i].Path)
		}
	}
	return &d.changes
}

type decision struct {
	now      time.Time
	scanned  map[string]*Scanned          // by path
	declared map[string]*spec.Declaration // by id
	known    map[string]*spec.FileState   // by path
	claims   map[string][]claim           // by pipeline id
	problems map[string][]spec.Problem    // by path, in addition to parsing problems
	added    []*spec.Pipeline             // not declared before
	restored map[string]bool              // ids whose withdrawal ends without a valid declaration in their file
	changes  spec.Changes
}

// claim is a file that declares a pipeline; parsed is nil if the declaration has errors.
type claim struct {
	path   string
	parsed *spec.Parsed
}

func (d *decision) collect(f *Scanned) {
	d.scanned[f.Path] = f
	for i := range f.Pipelines {
		id := f.Pipelines[i].Pipeline.ID
		d.claims[id] = append(d.claims[id], claim{f.Path, &f.Pipelines[i]})
	}
	for _, id := range f.Invalid {
		d.claims[id] = append(d.claims[id], claim{f.Path, nil})
	}
}

// assign decides which of the files that declare pipeline id owns it.
func (d *decision) assign(id string, claims []claim) {
	have := d.declared[id]
	switch {
	case have == nil:
		d.grant(id, nil, claims)
	case !have.Withdrawn.IsZero() && have.Purge:
		d.refuse(id, claims, "pipeline.being_deleted",
			"pipeline %q is being deleted; it is declared again when the deletion is complete", id)
	case have.Owner.Kind != spec.OwnerFile && have.Withdrawn.IsZero():
		d.refuse(id, claims, spec.CodeOwnedByAPI,
			"pipeline %q belongs to the API; hand it over with `conduit pipelines adopt %s`, or choose another id", id,
			id)
	case have.Owner.Kind == spec.OwnerFile && d.claimed(claims, have.Owner.Path):
		d.keep(id, have, claims)
	case have.Withdrawn.IsZero() && d.unreadable(have.Owner.Path):
		d.refuse(id, claims, spec.CodeDeclaredTwice,
			"pipeline %q belongs to %s, which has errors; correct or remove it first", id, have.Owner.Path)
	default:
		d.grant(id, have, claims)
	}
}

func (d *decision) claimed(claims []claim, path string) bool {
	return slices.ContainsFunc(claims, func(c claim) bool { return c.path == path })
}

// unreadable reports whether the file at path exists but not all its pipelines are known.
func (d *decision) unreadable(path string) bool {
	f := d.scanned[path]
	return f != nil && (f.Err != nil || f.Broken)
}

// keep leaves a pipeline with its owner.
func (d *decision) keep(id string, have *spec.Declaration, claims []claim) {
	for _, c := range claims {
		switch {
		case c.path != have.Owner.Path:
			d.refuse(id, []claim{c}, spec.CodeDeclaredTwice,
				"pipeline %q is already declared in %s; remove it from %s or from there, or choose another id", id,
				have.Owner.Path, c.path)
		case c.parsed != nil:
			d.declare(have, c)
		case !have.Withdrawn.IsZero():
			d.restore(have)
		default:
			d.misplace(have)
		}
	}
}

// grant gives a pipeline that no present file owns to the only file that declares it.
func (d *decision) grant(id string, have *spec.Declaration, claims []claim) {
	if len(claims) == 1 {
		if claims[0].parsed != nil {
			d.declare(have, claims[0])
		}
		return
	}
	var paths []string
	for _, c := range claims {
		paths = append(paths, c.path)
	}
	d.refuse(id, claims, spec.CodeDeclaredTwice, "pipeline %q is declared in %s; keep it in one of them", id,
		strings.Join(paths, " and "))
}

func (d *decision) refuse(id string, claims []claim, code, format string, args ...any) {
	for _, c := range claims {
		if c.parsed == nil {
			continue // reported separately
		}
		p := spec.Problem{File: c.path, Line: c.parsed.Line, Path: "/id", Pipeline: id, Severity: spec.SeverityError,
			Code: code, Message: fmt.Sprintf(format, args...)}
		if mark, ok := c.parsed.Places.Mark("/id"); ok {
			p.Line, p.Column = mark.Line, mark.Column
		}
		d.problems[c.path] = append(d.problems[c.path], p)
	}
}

func (d *decision) declare(have *spec.Declaration, c claim) {
	owner := spec.Owner{Kind: spec.OwnerFile, Path: c.path, Line: c.parsed.Line, Places: c.parsed.Places}
	want := &c.parsed.Pipeline
	if have != nil && have.Withdrawn.IsZero() && have.Owner == owner && spec.Equal(&have.Pipeline, want) {
		return
	}
	if clash := want.Clash(d.others); clash != nil {
		d.rejectConnector(c, clash)
		return
	}
	d.changes.Declare = append(d.changes.Declare, spec.Declare{Pipeline: *want, Owner: owner, Origin: origin(owner)})
	reason := ""
	switch {
	case have == nil:
		reason = "Declared"
		d.added = append(d.added, want)
	case !have.Withdrawn.IsZero():
		reason = "Restored"
	case !spec.Equal(&have.Pipeline, want):
		reason = "Changed"
	case have.Owner.Path != c.path:
		reason = "Moved"
	}
	if reason != "" {
		d.event(want.ID, c.path, spec.EventNormal, reason, "declared in "+c.path)
	}
}

// others returns the versions of a pipeline that are declared, or that a file would declare.
func (d *decision) others(id string) (all []*spec.Pipeline) {
	if have := d.declared[id]; have != nil {
		all = append(all, &have.Pipeline)
	}
	for _, c := range d.claims[id] {
		if c.parsed != nil {
			all = append(all, &c.parsed.Pipeline)
		}
	}
	return all
}

// rejectConnector reports that a connector would have the full id of another one. Both may
// be new: then neither pipeline is declared.
func (d *decision) rejectConnector(c claim, clash *spec.SameIDError) {
	d.problems[c.path] = append(d.problems[c.path], c.parsed.Locate(clash.Problem(&c.parsed.Pipeline), c.path))
}

// restore ends the withdrawal of a pipeline whose file is back, though with errors.
func (d *decision) restore(have *spec.Declaration) {
	d.restored[have.Pipeline.ID] = true
	d.declareAgain(have)
	d.event(have.Pipeline.ID, have.Owner.Path, spec.EventNormal, "Restored",
		have.Owner.Path+" is back with errors; its last good version stays in effect")
}

// unclaimed withdraws a pipeline that its file no longer declares.
func (d *decision) unclaimed(have *spec.Declaration) {
	id := have.Pipeline.ID
	if have.Owner.Kind != spec.OwnerFile || d.claims[id] != nil {
		return
	}
	unreadable := d.unreadable(have.Owner.Path)
	switch {
	case have.Withdrawn.IsZero() && !unreadable:
		d.changes.Withdraw = append(d.changes.Withdraw, spec.Withdraw{ID: id, Origin: origin(have.Owner)})
		d.event(id, have.Owner.Path, spec.EventNormal, "Withdrawn", have.Owner.Path+" no longer declares it")
	case !have.Withdrawn.IsZero() && !have.Purge && unreadable && d.known[have.Owner.Path] == nil:
		d.restore(have)
	case have.Withdrawn.IsZero():
		d.misplace(have)
	}
}

// misplace removes the places of a declaration: the file has changed, so no place in it belongs to the declaration.
func (d *decision) misplace(have *spec.Declaration) {
	if have.Owner.Places != "" {
		d.declareAgain(have)
	}
}

// declareAgain declares the last good version again, which has no place in the file.
func (d *decision) declareAgain(have *spec.Declaration) {
	owner := have.Owner
	owner.Places = ""
	d.changes.Declare = append(d.changes.Declare,
		spec.Declare{Pipeline: have.Pipeline, Owner: owner, Origin: origin(owner)})
}

// record records the new state of a file.
func (d *decision) record(f *Scanned) {
	s := spec.FileState{Path: f.Path, Hash: f.Hash, Pipelines: d.pipelines(f), SeenAt: d.now}
	s.Problems = append(slices.Clone(f.Problems), d.problems[f.Path]...)
	if f.Err != nil {
		s.Problems = append(s.Problems, spec.Problem{File: f.Path, Severity: spec.SeverityError,
			Code: "file.unreadable", Message: "cannot read the file: " + f.Err.Error()})
	}
	before := d.known[f.Path]
	if before != nil && before.Hash == s.Hash && slices.Equal(before.Pipelines, s.Pipelines) &&
		slices.Equal(before.Problems, s.Problems) {
		return
	}
	d.changes.Files = append(d.changes.Files, s)
	first, bad := firstError(s.Problems)
	switch {
	case bad:
		d.event("", f.Path, spec.EventWarning, "FileRejected", Place(first)+first.Message)
	case before != nil:
		if _, bad := firstError(before.Problems); bad {
			d.event("", f.Path, spec.EventNormal, "FileAccepted", f.Path+" is in order again")
		}
	}
}

// pipelines returns the ids that f declares. If f is broken, they include the ids it is known to have declared before.
func (d *decision) pipelines(f *Scanned) []string {
	ids := slices.Clone(f.Invalid)
	for _, p := range f.Pipelines {
		ids = append(ids, p.Pipeline.ID)
	}
	if d.unreadable(f.Path) {
		for id, have := range d.declared {
			if have.Owner.Kind == spec.OwnerFile && have.Owner.Path == f.Path &&
				(have.Withdrawn.IsZero() || d.restored[id]) {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func (d *decision) event(id, path, kind, reason, message string) {
	d.changes.Events = append(d.changes.Events,
		spec.Event{Pipeline: id, File: path, Type: kind, Reason: reason, Message: message})
}

func firstError(problems []spec.Problem) (spec.Problem, bool) {
	for _, p := range problems {
		if p.Severity != spec.SeverityWarning {
			return p, true
		}
	}
	return spec.Problem{}, false
}

// Place returns the place of p as a prefix of its message: "orders.yaml:3:5: ". A problem of a whole file has the place
// of its beginning.
func Place(p spec.Problem) string {
	if p.File == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d:%d: ", p.File, max(p.Line, 1), max(p.Column, 1))
}

func origin(o spec.Owner) string { return fmt.Sprintf("file %s:%d", o.Path, o.Line) }

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
