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
	identify func(path string) error // whether it is such a file
	create   func(ctx context.Context, path string) error
	mend     []string
	// readable returns nil when all rows can be read, and remove removes those that cannot; nil: rows
	// have nothing that could not be read.
	readable func(ctx context.Context, path string) error
	remove   func(ctx context.Context, path string) ([]*store.RowError, error)
}

// parts returns the files of the state of the agent whose store is at path. They are in the order in
// which they are copied: refused records are written before the positions that cover them, so that a later copy of
// the dead letters has those of all positions.
func parts(path string) []part {
	return []part{
		{store.File(path), "store", store.Identify, store.Create, store.Mend, store.Readable, store.RemoveUnreadable},
		{File: sqlitefile.File{Path: deadletter.PathOf(path)}, name: "dead letters", identify: deadletter.Identify, create: deadletter.Create, mend: deadletter.Mend},
	}
}

// present returns those of the files that exist. The store must.
func present(path string) (all []part, err error) {
	for i, p := range parts(path) {
		switch _, err := os.Stat(p.Path); {
		case err == nil:
			all = append(all, p)
		case i == 0 && errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("there is no store at %s: db.sqlite.path, or --db.sqlite.path, says where it is", path)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	return all, nil
}

// Checked is what a check found in one file.
type Checked struct {
	Name  string   `json:"name"`
	Path  string   `json:"path"`
	Bytes int64    `json:"bytes"`
	Found []string `json:"found"` // empty when it is whole
}

// Check reads all of the files. It changes nothing, and the agent may run.
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

// check returns what is wrong with the file.
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

// Backup copies the state to a file that is not there yet, and dead letters to one next to it. It returns the
// names of the files. The agent may run.
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

// Moved is a source of which the position is another than it was.
type Moved struct {
	ConnectorID string `json:"connectorId"`
	PipelineID  string `json:"pipelineId"`
	From        string `json:"from"`          // it goes on after this position
	Was         string `json:"was,omitempty"` // how far it had got; "" when that is not known
}

// Outcome is what became of sources and files when the store was replaced.
type Outcome struct {
	Kept  []string              `json:"kept"`            // names of the files that were replaced
	Moved []Moved               `json:"moved"`           // sources that deliver again what they delivered since
	Anew  []string              `json:"anew"`            // sources that begin from their beginning, because no position of them is known
	Read  []sqlitefile.Salvaged `json:"read,omitempty"`  // by a repair
	Lost  []string              `json:"lost,omitempty"`  // rows that a repair could copy, and the agent could not read
	Whole []string              `json:"whole,omitempty"` // files that a repair left as they are
}

// outcome opens the store that was put in place, so that its runs are fenced and its sources say what
// happened, and compares it with the checkpoints before.
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
		return errors.New("the file that was put in place is not the one that was opened")
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

// replace locks the store at path, and has prepare make drafts, by the file that they replace.
func (o *Outcome) replace(ctx context.Context, path, ending string, before []spec.Checkpoint, prepare func() (map[string]string, error)) (err error) {
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
		if err := p.Replace(draft, ending); err != nil {
			return fmt.Errorf("cannot replace %q: %w", p.Path, sqlitefile.Explain(p.Path, err))
		}
		o.Kept = append(o.Kept, p.Path+ending)
	}
	if drafts[path] == "" {
		return nil
	}
	if err := release(); err != nil { // for the store, which locks it
		return err
	}
	return o.outcome(ctx, path, before)
}

// Restore puts a backup in the place of the state of an agent, which must not run. What is replaced is kept
// under its name with the ending.
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
	before, _ := store.Checkpoints(ctx, path) // what cannot be read is not known
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

// identify returns an error unless the files are those of a store, whole or not.
func identify(files []part) error {
	for i, p := range files {
		_, err := sqlitefile.ApplicationID(p.Path)
		if err == nil && i == 0 {
			err = store.Identify(p.Path)
		}
		if errors.Is(err, sqlitefile.ErrDamaged) || errors.Is(err, store.ErrOther) {
			return fmt.Errorf("%s is no backup of a store: make one with conduit store backup", p.Path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// complete returns an error unless the files need no logs.
func complete(_ context.Context, files []part) error {
	for _, p := range files {
		s, err := sqlitefile.StateOf(p.Path)
		if err != nil {
			return err
		}
		if s.Log > 0 || p.Generations && s.Generation > 0 && s.Generation%2 == 1 {
			return fmt.Errorf("%w: %s is no backup, but the file of an agent that was copied while it ran, or ended by force: make one with conduit store backup", sqlitefile.ErrIncomplete, p.Path)
		}
	}
	return nil
}

// Repair keeps what can be read of damaged files of an agent, which must not run. What is replaced is kept under
// its name with the ending.
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

// repair makes a file of what can be read of p, unless that is whole.
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
	if wrong == nil { // or the log may be that of another file
		if found, err = p.check(ctx); err != nil {
			return "", err
		}
	}
	if wrong == nil && len(found) == 0 {
		o.Whole = append(o.Whole, p.Path)
		return "", p.identify(p.Path)
	}
	if wrong != nil && state.Log > 0 { // it is the log of another file
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
