package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/conduit-agent/conduit/agent/sqlitefile"
	"github.com/conduit-agent/conduit/spec"
)

// Retention bounds the stored history of deleted pipelines. The pipelines that were deleted first are forgotten first.
// A zero field keeps nothing.
type Retention struct {
	Age       time.Duration // since the deletion
	Pipelines int
	Bytes     int64 // total of the revisions
}

// Prune deletes the history of deleted pipelines beyond the retention, and erases data deleted earlier from the file
// and its log.
func (db *DB) Prune(ctx context.Context) error {
	forgotten := false
	err := db.write(ctx, func(tx *sql.Tx) (err error) {
		forgotten, err = db.prune(tx)
		return err
	}, nil)
	if err == nil && (forgotten || db.logKept.Load()) {
		err = db.truncateLog(ctx)
	}
	return wrap(err, "cannot prune the history of deleted pipelines")
}

// Purge deletes the history and the events of a deleted pipeline now, and erases them from the file and its log. It
// returns spec.ErrNotFound if the pipeline is unknown, and spec.ErrConflict if it is not deleted.
func (db *DB) Purge(ctx context.Context, id string) error {
	err := db.write(ctx, func(tx *sql.Tx) error {
		if d, _, err := findDeclaration(tx, id); err != nil || d != nil {
			return cmp.Or[error](err, spec.ErrConflict)
		}
		var forgotten int64
		for _, query := range []string{
			`DELETE FROM revisions WHERE pipeline_id = ?`, `DELETE FROM deleted WHERE pipeline_id = ?`,
			`DELETE FROM events WHERE pipeline_id = ?`,
		} {
			n, err := exec(tx, query, id)
			if err != nil {
				return err
			}
			forgotten += n
		}
		if forgotten == 0 {
			return spec.ErrNotFound
		}
		return nil
	}, nil)
	if err == nil {
		err = db.truncateLog(ctx)
	}
	return wrap(err, "cannot purge pipeline %q", id)
}

// truncateLog writes the write-ahead log back into the file and empties it. If a reader prevents that, the next Prune
// does it.
func (db *DB) truncateLog(ctx context.Context) error {
	return db.useWriter(func(p *pools) error {
		busy, err := sqlitefile.EmptyLog(ctx, p.writer, db.path)
		db.logKept.Store(busy || err != nil)
		return err
	})
}

// retire marks the stored revisions of a pipeline as the history of a deleted pipeline. It removes the secrets from
// their settings, and reports whether there were any. It deletes history beyond the retention.
func (db *DB) retire(tx *sql.Tx, id string) (secrets bool, err error) {
	if secrets, err = redactRevisions(tx, id); err != nil {
		return false, err
	}
	if _, err := exec(tx, `INSERT OR REPLACE INTO deleted (pipeline_id, at, bytes)
		SELECT ?1, ?2, sum(length(origin) + coalesce(length(spec), 0)) FROM revisions
		WHERE pipeline_id = ?1 HAVING count(*) > 0`,
		id, nanos(db.now())); err != nil {
		return false, err
	}
	_, err = db.prune(tx)
	return secrets, err
}

// redactRevisions removes the values of secret settings from the revisions of a pipeline, and reports whether there
// were any.
func redactRevisions(tx *sql.Tx, id string) (found bool, err error) {
	revisions, err := queryAll(context.Background(), tx, scanRevision,
		`SELECT `+revisionColumns+` FROM revisions WHERE pipeline_id = ? AND spec IS NOT NULL`, id)
	if err != nil {
		return false, err
	}
	for _, r := range revisions {
		if !redact(r.Spec) {
			continue
		}
		found = true
		text, err := encode(r.Spec)
		if err != nil {
			return false, fmt.Errorf("cannot encode revision %d: %w", r.Number, err)
		}
		if _, err := exec(tx, `UPDATE revisions SET spec = ? WHERE pipeline_id = ? AND number = ?`, text, id,
			r.Number); err != nil {
			return false, err
		}
	}
	return found, nil
}

// redact replaces the secret settings of p and reports whether there were any.
func redact(p *spec.Pipeline) (found bool) {
	for _, s := range p.EachSettings() {
		for name, value := range s {
			if spec.IsSecret(name, value) {
				s[name], found = spec.Redacted, true
			}
		}
	}
	return found
}

// prune deletes the history of deleted pipelines beyond the retention, the first deleted first, and reports whether
// there was any.
func (db *DB) prune(tx *sql.Tx) (forgotten bool, err error) {
	if db.Retention == nil {
		return false, nil
	}
	type row struct {
		id        string
		at, bytes int64
	}
	all, err := queryAll(context.Background(), tx, func(s scanner) (r row, err error) {
		return r, s.Scan(&r.id, &r.at, &r.bytes)
	},
		`SELECT pipeline_id, at, bytes FROM deleted ORDER BY at DESC, pipeline_id`)
	if err != nil {
		return false, err
	}
	var bytes int64
	oldest := nanos(db.now().Add(-db.Retention.Age))
	for i, r := range all {
		bytes += r.bytes
		if i < db.Retention.Pipelines && bytes <= db.Retention.Bytes && r.at > oldest {
			continue
		}
		for _, query := range []string{`DELETE FROM revisions WHERE pipeline_id = ?`,
			`DELETE FROM deleted WHERE pipeline_id = ?`} {
			if _, err := exec(tx, query, r.id); err != nil {
				return false, err
			}
		}
		forgotten = true
	}
	return forgotten, nil
}
