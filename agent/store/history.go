package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/conduit-agent/conduit/spec"
)

// Limits of the stored revisions of each pipeline. The newest revision is always kept, whatever its size.
const (
	keepRevisions     = 100
	keepRevisionBytes = 8 << 20
)

// tooOld is an SQL query for the number of the newest revision of pipeline ?1 beyond ?2 bytes, or 0 if there is none.
const tooOld = `(SELECT coalesce(max(number), 0) FROM
	(SELECT number, sum(coalesce(octet_length(spec), 0)) OVER (ORDER BY number DESC) AS total,
	max(number) OVER () AS newest
	FROM revisions WHERE pipeline_id = ?1) WHERE total > ?2 AND number < newest)`

// The actions of revisions.
const (
	actionDeclare  = "declare"
	actionWithdraw = "withdraw"
	actionDelete   = "delete" // withdrawn by a person's explicit request
)

const revisionColumns = `pipeline_id, number, generation, at, origin, action, spec`

// History returns the stored revisions of a pipeline, oldest first, even after the pipeline was deleted.
func (db *DB) History(ctx context.Context, id string) (revisions []spec.Revision, err error) {
	err = db.use(func(p *pools) (err error) {
		revisions, err = queryAll(ctx, p.reader, scanRevision,
			`SELECT `+revisionColumns+` FROM revisions WHERE pipeline_id = ?1 AND number > `+tooOld+` ORDER BY number`,
			id, keepRevisionBytes)
		return err
	})
	return revisions, wrap(err, "cannot read the history of pipeline %q", id)
}

// Revision returns one revision of a pipeline, or spec.ErrNotFound if it never existed or is no longer stored.
func (db *DB) Revision(ctx context.Context, id string, number int64) (spec.Revision, error) {
	var found []spec.Revision
	err := db.use(func(p *pools) (err error) {
		found, err = queryAll(ctx, p.reader, scanRevision,
			`SELECT `+revisionColumns+` FROM revisions WHERE pipeline_id = ? AND number = ?`, id, number)
		return err
	})
	if err == nil && len(found) == 0 {
		err = spec.ErrNotFound
	}
	if err != nil {
		return spec.Revision{}, wrap(err, "cannot get revision %d of pipeline %q", number, id)
	}
	return found[0], nil
}

func scanRevision(s scanner) (r spec.Revision, err error) {
	var at int64
	var text sql.NullString
	if err := s.Scan(&r.Pipeline, &r.Number, &r.Generation, &at, &r.Origin, &r.Action, &text); err != nil {
		return r, err
	}
	r.At = fromNanos(at)
	if text.Valid {
		p, err := decode[spec.Pipeline]("revisions", r.Pipeline, text.String)
		if err != nil {
			return r, err
		}
		r.Spec = &p
	}
	return r, nil
}

// lastGeneration returns the highest generation in the history of a pipeline, or 0 if there is none. Within a history,
// each generation is unique.
func lastGeneration(tx *sql.Tx, id string) (generation int64, err error) {
	err = tx.QueryRow(`SELECT coalesce(max(generation), 0) FROM revisions WHERE pipeline_id = ?`, id).Scan(&generation)
	return generation, err
}

// insertRevision records a change of d's pipeline and deletes the oldest revisions beyond the limits. An empty text
// means that the revision has no spec.
func insertRevision(tx *sql.Tx, d *spec.Declaration, at time.Time, origin, action, text string) error {
	var number int64
	err := tx.QueryRow(`INSERT INTO revisions (`+revisionColumns+`)
		SELECT ?1, coalesce(max(number), 0) + 1, ?2, ?3, ?4, ?5, NULLIF(?6, '') FROM revisions WHERE pipeline_id = ?1
		RETURNING number`, d.Pipeline.ID, d.Generation, nanos(at), origin, action, text).Scan(&number)
	if err != nil || number == 1 { // the first one has none before it
		return err
	}
	_, err = exec(tx, `DELETE FROM revisions WHERE pipeline_id = ?1
		AND (number <= (SELECT max(number) FROM revisions WHERE pipeline_id = ?1) - ?3 OR number <= `+tooOld+`)`,
		d.Pipeline.ID, keepRevisionBytes, keepRevisions)
	return err
}
