package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/conduit-agent/conduit/spec"
)

// Apply performs c in one transaction. The withdrawal of a missing pipeline changes nothing. A file that is both in
// Files and in Forget stays. The caller must not change the data that the states of files point to afterwards.
func (db *DB) Apply(ctx context.Context, c *spec.Changes) error { return db.ApplyIf(ctx, c, nil) }

// ApplyIf performs c in one transaction if every pipeline named in expect is declared in that version
// (spec.Declaration.Version). An empty version means that the pipeline is not declared, or withdrawn. Otherwise ApplyIf
// changes nothing and returns spec.ErrConflict.
func (db *DB) ApplyIf(ctx context.Context, c *spec.Changes, expect map[string]string) error {
	if c.Empty() && len(expect) == 0 {
		return nil
	}
	a := &application{db: db, changes: c, expect: expect}
	err := a.prepare()
	if err == nil {
		err = db.write(ctx, a.do, a.committed)
	}
	if err == nil && len(c.Declare)+len(c.Withdraw) > 0 {
		db.changed(c)
	}
	return wrap(err, "cannot apply changes")
}

// application applies one set of changes.
type application struct {
	db      *DB
	changes *spec.Changes
	expect  map[string]string

	specs     []string              // text of changes.Declare
	writeDocs []func(*sql.Tx) error // for changes.Files
	keepDocs  []func()

	at  time.Time
	new []spec.Declaration // declarations as written by do
}

// prepare checks the changes and does all work that needs no transaction.
func (a *application) prepare() error {
	seen := map[string]bool{}
	for i := range a.changes.Declare {
		id := a.changes.Declare[i].Pipeline.ID
		text, err := encode(&a.changes.Declare[i].Pipeline)
		if err != nil {
			return fmt.Errorf("cannot encode pipeline %q: %w", id, err)
		}
		if id == "" || seen[id] {
			return fmt.Errorf("pipeline %q is declared without an id or more than once", id)
		}
		seen[id] = true
		a.specs = append(a.specs, text)
	}
	for _, w := range a.changes.Withdraw {
		if seen[w.ID] {
			return fmt.Errorf("pipeline %q is declared or withdrawn more than once", w.ID)
		}
		seen[w.ID] = true
	}
	for i := range a.changes.Files {
		do, keep, err := a.db.files.prepare(&a.changes.Files[i])
		if err != nil {
			return err
		}
		a.writeDocs, a.keepDocs = append(a.writeDocs, do), append(a.keepDocs, keep)
	}
	return nil
}

func (a *application) do(tx *sql.Tx) error {
	a.at, a.new = a.db.now().UTC().Round(0), nil
	for id, version := range a.expect {
		if err := checkExpected(tx, id, version); err != nil {
			return err
		}
	}
	for i := range a.changes.Declare {
		if err := a.declare(tx, &a.changes.Declare[i], a.specs[i]); err != nil {
			return fmt.Errorf("pipeline %q: %w", a.changes.Declare[i].Pipeline.ID, err)
		}
	}
	for i := range a.changes.Withdraw {
		if err := a.withdraw(tx, &a.changes.Withdraw[i]); err != nil {
			return fmt.Errorf("pipeline %q: %w", a.changes.Withdraw[i].ID, err)
		}
	}
	for _, path := range a.changes.Forget {
		if err := a.db.files.remove(tx, path); err != nil {
			return err
		}
	}
	for _, write := range a.writeDocs {
		if err := write(tx); err != nil {
			return err
		}
	}
	return a.db.insertEvents(tx, a.changes.Events)
}

func checkExpected(tx *sql.Tx, id, version string) error {
	d, _, err := findDeclaration(tx, id)
	if err != nil {
		return err
	}
	current := ""
	if d != nil && d.Withdrawn.IsZero() {
		current = d.Version()
	}
	if current != version {
		return fmt.Errorf("pipeline %q: %w", id, spec.ErrConflict)
	}
	return nil
}

func (a *application) declare(tx *sql.Tx, c *spec.Declare, text string) error {
	old, oldText, err := findDeclaration(tx, c.Pipeline.ID)
	if err != nil {
		return err
	}
	var before int64
	if old == nil {
		if before, err = lastGeneration(tx, c.Pipeline.ID); err != nil {
			return err
		}
	}
	if err := checkNamesakes(tx, &c.Pipeline); err != nil {
		return err
	}
	d := a.successor(old, before, *c.Pipeline.Clone(), c.Owner)
	if oldText != text {
		d.Override = ""
	}
	changed := old == nil || oldText != text || !old.Withdrawn.IsZero()
	if changed {
		d.UpdatedAt = a.at
	}
	if err := putDeclaration(tx, &d, text); err != nil {
		return err
	}
	a.new = append(a.new, d)
	if old == nil {
		if _, err := exec(tx, `DELETE FROM deleted WHERE pipeline_id = ?`, d.Pipeline.ID); err != nil {
			return err
		}
	}
	if !changed {
		return nil
	}
	return insertRevision(tx, &d, a.at, c.Origin, actionDeclare, text)
}

// checkNamesakes refuses a pipeline with a connector whose full id, and so its position, would clash with a connector
// of another pipeline.
func checkNamesakes(tx *sql.Tx, p *spec.Pipeline) (err error) {
	clash := p.Clash(func(id string) []*spec.Pipeline {
		d, _, ferr := findDeclaration(tx, id)
		if err = cmp.Or(err, ferr); d == nil {
			return nil
		}
		return []*spec.Pipeline{&d.Pipeline}
	})
	if clash != nil {
		return clash
	}
	return err
}

// successor returns the declaration that follows old, which may be nil, when owner declares p. before is the last
// generation of a deleted pipeline with this id, or 0.
func (a *application) successor(
	old *spec.Declaration, before int64, p spec.Pipeline, owner spec.Owner,
) spec.Declaration {
	d := spec.Declaration{Generation: before + 1, CreatedAt: a.at}
	digest := spec.Digest(&p)
	if old != nil {
		d = *old
		if digest != old.Digest {
			d.Generation++
		}
	}
	d.Pipeline, d.Owner, d.Digest = p, owner, digest
	d.Withdrawn, d.Purge = time.Time{}, false
	return d
}

func (a *application) withdraw(tx *sql.Tx, w *spec.Withdraw) error {
	d, text, err := findDeclaration(tx, w.ID)
	if err != nil || d == nil {
		return err
	}
	if !d.Withdrawn.IsZero() && (d.Purge || !w.Purge) {
		return nil
	}
	if d.Withdrawn.IsZero() {
		d.Withdrawn = a.at
	}
	action := actionWithdraw
	if w.Purge {
		d.Purge, action = true, actionDelete
	}
	d.UpdatedAt = a.at
	if err := putDeclaration(tx, d, text); err != nil {
		return err
	}
	a.new = append(a.new, *d)
	return insertRevision(tx, d, a.at, w.Origin, action, "")
}

// committed updates the memory after the commit.
func (a *application) committed() {
	for _, d := range a.new {
		a.db.declarations.Put(d)
	}
	for _, path := range a.changes.Forget {
		a.db.files.Drop(path)
	}
	for _, keep := range a.keepDocs {
		keep()
	}
}
