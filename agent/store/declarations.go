package store

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/conduit-agent/conduit/spec"
)

const declarationColumns = `id, spec, owner_kind, owner_path, owner_line, owner_places, generation, digest, ` +
	`override, withdrawn, purge, created_at, updated_at`

// Declarations returns all desired state by id, including withdrawn pipelines.
func (db *DB) Declarations(ctx context.Context) ([]spec.Declaration, error) {
	return cached(db, "declared pipelines", func() []spec.Declaration { return db.declarations.All() })
}

// DeclarationsSince returns the changes of the desired state since a revision from an earlier result. It returns every
// declaration for revision 0, for a revision that is too old, and after the store was reopened.
func (db *DB) DeclarationsSince(ctx context.Context, revision int64) (spec.Delta[spec.Declaration], error) {
	return cached(db, "declared pipelines", func() spec.Delta[spec.Declaration] {
		return db.declarations.Since(revision)
	})
}

// Get returns the desired state of one pipeline, or spec.ErrNotFound. A withdrawn pipeline exists until its clean-up is
// complete.
func (db *DB) Get(ctx context.Context, id string) (d spec.Declaration, err error) {
	err = db.use(func(*pools) error {
		var ok bool
		if d, ok = db.declarations.Get(id); !ok {
			return spec.ErrNotFound
		}
		return nil
	})
	return d, wrap(err, "cannot get pipeline %q", id)
}

// SetOverride makes the pipeline run or stop regardless of its declaration, until any part of the declaration changes,
// even the name. The declared status, or an empty one, ends an override.
func (db *DB) SetOverride(ctx context.Context, id string, status spec.Status) error {
	var d *spec.Declaration
	err := db.write(ctx, func(tx *sql.Tx) (err error) {
		if d, _, err = findDeclaration(tx, id); err != nil {
			return err
		}
		if d == nil {
			return spec.ErrNotFound
		}
		if d.Override = status; status == d.Pipeline.Status {
			d.Override = ""
		}
		d.UpdatedAt = db.now().UTC().Round(0)
		_, err = exec(tx, `UPDATE pipelines SET override = ?, updated_at = ? WHERE id = ?`, d.Override,
			nanos(d.UpdatedAt), id)
		return err
	}, func() { db.declarations.Put(*d) })
	if err == nil {
		db.changed(nil)
	}
	return wrap(err, "cannot override the status of pipeline %q", id)
}

// RaiseGeneration raises the generation of the declared version of a pipeline, and of the version's revisions, to at
// least least. It serves an agent that takes over from one that counted further. It returns spec.ErrNotFound if the
// pipeline is not declared.
func (db *DB) RaiseGeneration(ctx context.Context, id string, least int64) error {
	var d *spec.Declaration
	err := db.write(ctx, func(tx *sql.Tx) (err error) {
		if d, _, err = findDeclaration(tx, id); err != nil {
			return err
		}
		if d == nil {
			return spec.ErrNotFound
		}
		if d.Generation >= least {
			return nil
		}
		if _, err = exec(tx, `UPDATE revisions SET generation = ? WHERE pipeline_id = ? AND generation = ?`, least, id,
			d.Generation); err != nil {
			return err
		}
		d.Generation = least
		_, err = exec(tx, `UPDATE pipelines SET generation = ? WHERE id = ?`, least, id)
		return err
	}, func() { db.declarations.Put(*d) })
	if err == nil {
		db.changed(nil)
	}
	return wrap(err, "cannot raise the generation of pipeline %q", id)
}

// DeletePipeline deletes a withdrawn pipeline: declaration, state and positions. Its events stay, and its revisions,
// without secrets, as long as Retention allows. It refuses while the pipeline is declared or has connector states left.
// Runs that have not ended can no longer save positions.
func (db *DB) DeletePipeline(ctx context.Context, id string) error {
	secrets := false
	err := db.write(ctx, func(tx *sql.Tx) (err error) {
		if err := checkDeletable(tx, id); err != nil {
			return err
		}
		for _, query := range []string{
			`DELETE FROM pipelines WHERE id = ?`, `DELETE FROM states WHERE id = ?`,
			`DELETE FROM positions WHERE pipeline_id = ?`,
		} {
			if _, err := exec(tx, query, id); err != nil {
				return err
			}
		}
		if err := endRuns(tx, id); err != nil {
			return err
		}
		secrets, err = db.retire(tx, id)
		return err
	}, func() { db.declarations.Drop(id) })
	if err == nil {
		db.changed(nil)
	}
	if err == nil && secrets {
		err = db.truncateLog(ctx)
	}
	return wrap(err, "cannot delete pipeline %q", id)
}

func checkDeletable(tx *sql.Tx, id string) error {
	d, _, err := findDeclaration(tx, id)
	if err != nil {
		return err
	}
	if d != nil && d.Withdrawn.IsZero() {
		return fmt.Errorf("it is still declared")
	}
	var connectors int
	if err := tx.QueryRow(`SELECT count(*) FROM connectors WHERE pipeline_id = ?`, id).Scan(&connectors); err != nil {
		return err
	}
	if connectors > 0 {
		return fmt.Errorf("%d of its connectors are not cleaned up yet", connectors)
	}
	return nil
}

func (db *DB) changed(c *spec.Changes) {
	if db.OnChange != nil {
		db.OnChange(c)
	}
}

// findDeclaration returns the declaration of id and the text of its spec, or nil if there is none.
func findDeclaration(tx *sql.Tx, id string) (*spec.Declaration, string, error) {
	var text string
	scan := func(s scanner) (d spec.Declaration, err error) {
		d, text, err = scanDeclaration(s)
		return d, err
	}
	found, err := queryAll(context.Background(), tx, scan, `SELECT `+declarationColumns+` FROM pipelines WHERE id = ?`,
		id)
	if err != nil || len(found) == 0 {
		return nil, "", err
	}
	return &found[0], text, nil
}

func loadDeclarations(ctx context.Context, q querier, columns string, into *Cache[spec.Declaration]) error {
	scan := func(s scanner) (spec.Declaration, error) {
		d, _, err := scanDeclaration(s)
		return d, err
	}
	rows, err := queryAll(ctx, q, scan, `SELECT `+columns+` FROM pipelines`)
	if err == nil {
		into.Reset(rows)
	}
	return err
}

func scanDeclaration(s scanner) (d spec.Declaration, text string, err error) {
	var id string
	var withdrawn, created, updated int64
	if err := s.Scan(&id, &text, &d.Owner.Kind, &d.Owner.Path, &d.Owner.Line, &d.Owner.Places, &d.Generation, &d.Digest,
		&d.Override, &withdrawn, &d.Purge, &created, &updated); err != nil {
		return d, "", err
	}
	d.Withdrawn, d.CreatedAt, d.UpdatedAt = fromNanos(withdrawn), fromNanos(created), fromNanos(updated)
	d.Pipeline, err = decode[spec.Pipeline]("pipelines", id, text)
	return d, text, err
}

func putDeclaration(tx *sql.Tx, d *spec.Declaration, text string) error {
	_, err := exec(tx, `INSERT OR REPLACE INTO pipelines (`+declarationColumns+
		`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		d.Pipeline.ID, text, d.Owner.Kind, d.Owner.Path, d.Owner.Line, d.Owner.Places, d.Generation, d.Digest,
		d.Override, nanos(d.Withdrawn), d.Purge, nanos(d.CreatedAt), nanos(d.UpdatedAt))
	return err
}
