// Package maintenance checks, backs up, restores and repairs the state of an agent: the store and the
// dead-letter store next to it.
package maintenance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/conduit-agent/conduit/agent/deadletter"
	"github.com/conduit-agent/conduit/agent/sqlitefile"
	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/spec"
)

// part is one file of the state.
type part struct {
	sqlitefile.File
	name     string
	identify func(path string) error // returns an error if the file is of another kind
	create   func(ctx context.Context, path string) error
	mend     []string
	// readable returns nil if all rows can be read, and remove deletes those that cannot. Both are nil for a file whose
	// rows are always readable.
	readable func(ctx context.Context, path string) error
	remove   func(ctx context.Context, path string) ([]*store.RowError, error)
}

// parts returns the files of the state of the agent whose store is at path, in the order of copying. Dead letters are
// written before the positions that cover them, so a later copy of the dead-letter store covers all positions of the
// copied store.
func parts(path string) []part {
	return []part{
		{store.File(path), "store", store.Identify, store.Create, store.Mend, store.Readable, store.RemoveUnreadable},
		{File: sqlitefile.File{Path: deadletter.PathOf(path), Former: deadletter.Former}, name: "dead letters",
			identify: deadletter.Identify, create: deadletter.Create, mend: deadletter.Mend},
	}
}

// present returns the files that exist. The store must exist.
func present(path string) (all []part, err error) {
	for i, p := range parts(path) {
		switch _, err := os.Stat(p.Path); {
		case err == nil:
			all = append(all, p)
		case i == 0 && errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("there is no store at %s: set db.sqlite.path, or --db.sqlite.path",
				path)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	return all, nil
}

// Checked is the result of the check of a file.
type Checked struct {
	Name  string   `json:"name"`
	Path  string   `json:"path"`
	Bytes int64    `json:"bytes"`
	Found []string `json:"found"` // empty if the file is intact
}

// Check reads all files. It changes nothing, and the agent may run.
func Check(ctx context.Context, path string) (all []Checked, err error) {
	files, err := present(path)
	if err != nil {
		return nil, err
	}
	for i := range files {
		p := &files[i]
		found, err := p.check(ctx)
		if err != nil {
			return nil, err
		}
		c := Checked{Name: p.name, Path: p.Path, Found: append([]string{}, found...)}
		if info, err := os.Stat(p.Path); err == nil {
			c.Bytes = info.Size()
		}
		all = append(all, c)
	}
	return all, nil
}

// check returns the problems of the file.
func (p *part) check(ctx context.Context) ([]string, error) {
	found, err := p.Check(ctx)
	if err != nil || len(found) > 0 || p.readable == nil {
		return found, err
	}
	var row *store.RowError
	if err = p.readable(ctx, p.Path); errors.As(err, &row) {
		return []string{row.Error()}, nil
	}
	return nil, err
}

// Backup copies the store to a new file, and the dead letters to a file next to it. It returns the names of the files.
// The agent may run.
func Backup(ctx context.Context, path, to string) (written []string, err error) {
	files, err := present(path)
	if err != nil {
		return nil, err
	}
	if err := store.Verify(ctx, path); err != nil {
		return nil, err
	}
	targets := parts(to)
	for i, p := range files {
		if err := p.Copy(ctx, targets[i].Path); err != nil {
			return written, err
		}
		written = append(written, targets[i].Path)
	}
	return written, nil
}

// Moved is a source whose position changed.
type Moved struct {
	ConnectorID string `json:"connectorId"`
	PipelineID  string `json:"pipelineId"`
	From        string `json:"from"`          // resumes after this position
	Was         string `json:"was,omitempty"` // former position; "" if not known
}

// Outcome describes the result of replacing the store for sources and files.
type Outcome struct {
	Kept  []string              `json:"kept"`            // names of the replaced files
	Moved []Moved               `json:"moved"`           // sources that repeat their deliveries since the position
	Anew  []string              `json:"anew"`            // sources that start over, without a known position
	Read  []sqlitefile.Salvaged `json:"read,omitempty"`  // by a repair
	Lost  []string              `json:"lost,omitempty"`  // rows that a repair could copy, but the agent could not read
	Whole []string              `json:"whole,omitempty"` // files that a repair left unchanged
}

// outcome opens the new store, which fences earlier runs and records events for the sources, and compares it with the
// checkpoints before.
func (o *Outcome) outcome(ctx context.Context, path string, before []spec.Checkpoint) (err error) {
	db, err := store.Open(ctx, path, store.OnNetwork(true))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	was := map[string]spec.Checkpoint{}
	for _, c := range before {
		was[c.ConnectorID] = c
	}
	o.Moved, o.Anew = []Moved{}, []string{}
	known := map[string]bool{}
	adopted := db.Adopted()
	if adopted == nil {
		return errors.New("the replaced file is not the file that was opened")
	}
	for _, c := range adopted.Sources {
		known[c.ConnectorID] = true
		m := Moved{ConnectorID: c.ConnectorID, PipelineID: c.PipelineID, From: store.PositionText(c.Position)}
		if b, ok := was[c.ConnectorID]; ok {
			if string(b.Position) == string(c.Position) {
				continue
			}
			m.Was = store.PositionText(b.Position)
		}
		o.Moved = append(o.Moved, m)
	}
	for _, c := range before {
		if !known[c.ConnectorID] {
			known[c.ConnectorID] = true
			o.Anew = append(o.Anew, c.ConnectorID)
		}
	}
	declared, err := db.Declarations(ctx)
	for i := range declared {
		p := &declared[i].Pipeline
		for _, c := range p.Connectors {
			if id := p.QualifiedID(c.ID); c.Type == spec.TypeSource && !known[id] {
				o.Anew = append(o.Anew, id)
			}
		}
	}
	return err
}

// replace locks the store at path, calls prepare, and puts the drafts that prepare returns, by path of the file, in
// place.
func (o *Outcome) replace(
	ctx context.Context, path, ending string, before []spec.Checkpoint, prepare func() (map[string]string, error),
) (err error) {
	lock, err := sqlitefile.LockFile(path)
	if err != nil {
		return err
	}
	release := func() error {
		l := lock
		lock = nil
		if l == nil {
			return nil
		}
		return l.Release()
	}
	defer func() { err = errors.Join(err, release()) }()
	drafts, err := prepare()
	if err != nil || len(drafts) == 0 {
		return err
	}
	for _, p := range parts(path) {
		draft := drafts[p.Path]
		if draft == "" {
			continue
		}
		_, missing := os.Stat(p.Path)
		if err := p.Replace(draft, ending); err != nil {
			return fmt.Errorf("cannot replace %q: %w", p.Path, sqlitefile.Explain(p.Path, err))
		}
		if missing == nil {
			o.Kept = append(o.Kept, p.Path+ending)
		}
	}
	if drafts[path] == "" {
		return nil
	}
	if err := release(); err != nil { // the store takes the lock itself
		return err
	}
	return o.outcome(ctx, path, before)
}

// Restore replaces the state of an agent, which must not run, by a backup. Replaced files keep their name with ending
// appended.
func Restore(ctx context.Context, from, path, ending string) (o Outcome, err error) {
	if from, err = filepath.Abs(from); err != nil {
		return o, err
	}
	files, err := present(from)
	if err != nil {
		return o, fmt.Errorf("there is no backup at %s", from)
	}
	if err := identify(files); err != nil {
		return o, err
	}
	if err := complete(ctx, files); err != nil {
		return o, err
	}
	before, _ := store.Checkpoints(ctx, path) // an unreadable position counts as unknown
	targets := parts(path)
	err = o.replace(ctx, path, ending, before, func() (map[string]string, error) {
		drafts := map[string]string{}
		for i, p := range files {
			draft := targets[i].Path + ".restored"
			if err := p.Import(ctx, draft); err != nil {
				return nil, fmt.Errorf("cannot copy %q: %w", p.Path, sqlitefile.Explain(draft, err))
			}
			found, err := sqlitefile.File{Path: draft}.Check(ctx)
			if err == nil && len(found) > 0 {
				err = fmt.Errorf("cannot restore %s, which is damaged: %s", p.Path, found[0])
			}
			if err == nil && i == 0 {
				err = store.Verify(ctx, draft)
			}
			if err != nil {
				return nil, err
			}
			drafts[targets[i].Path] = draft
		}
		return drafts, nil
	})
	return o, err
}

// identify returns an error unless the files belong to a store, intact or not.
func identify(files []part) error {
	for i, p := range files {
		_, err := sqlitefile.ApplicationID(p.Path)
		if err == nil && i == 0 {
			err = store.Identify(p.Path)
		}
		if errors.Is(err, sqlitefile.ErrDamaged) || errors.Is(err, store.ErrOther) {
			return fmt.Errorf("%s is not a backup of a store: make one with conduit store backup", p.Path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// complete returns an error if the files depend on logs.
func complete(_ context.Context, files []part) error {
	for _, p := range files {
		s, err := sqlitefile.StateOf(p.Path)
		if err != nil {
			return err
		}
		if s.Log > 0 || p.Generations && s.Generation > 0 && s.Generation%2 == 1 {
			return fmt.Errorf("%w: %s is not a backup, but the file of an agent that was copied while the agent ran, "+
				"or after it was killed: make one with conduit store backup", sqlitefile.ErrIncomplete, p.Path)
		}
	}
	return nil
}

// Repair keeps the readable content of damaged files of an agent, which must not run. Replaced files keep their name
// with ending appended.
func Repair(ctx context.Context, path, ending string) (o Outcome, err error) {
	files, err := present(path)
	if err != nil {
		return o, err
	}
	err = o.replace(ctx, path, ending, nil, func() (map[string]string, error) {
		drafts := map[string]string{}
		for i := range files {
			p := &files[i]
			draft, err := o.repair(ctx, p, ending)
			if err != nil {
				return nil, fmt.Errorf("cannot repair %q: %w", p.Path, err)
			}
			if draft != "" {
				drafts[p.Path] = draft
			}
		}
		return drafts, nil
	})
	return o, err
}

// repair creates a draft with the readable content of p. It returns no draft if p is intact.
func (o *Outcome) repair(ctx context.Context, p *part, ending string) (draft string, err error) {
	state, err := sqlitefile.StateOf(p.Path)
	wrong := err
	if err != nil && !errors.Is(err, sqlitefile.ErrDamaged) {
		return "", err
	}
	if err == nil && p.Generations {
		wrong = state.Err(p.Path)
	}
	var found []string
	if wrong == nil { // otherwise the log may belong to another file
		if found, err = p.check(ctx); err != nil {
			return "", err
		}
	}
	if wrong == nil && len(found) == 0 {
		o.Whole = append(o.Whole, p.Path)
		return "", p.identify(p.Path)
	}
	if wrong != nil && state.Log > 0 { // the log belongs to another file
		if err := p.MoveLog(p.Path + ending); err != nil {
			return "", err
		}
	}
	draft = p.Path + ".repaired"
	if err := p.create(ctx, draft); err != nil {
		return "", err
	}
	read, err := p.Salvage(ctx, draft, p.mend)
	o.Read = append(o.Read, read...)
	if err != nil || p.remove == nil {
		return draft, err
	}
	removed, err := p.remove(ctx, draft)
	for _, row := range removed {
		o.Lost = append(o.Lost, fmt.Sprintf("row %q of table %s: %v", row.ID, row.Table, row.Err))
	}
	return draft, err
}
