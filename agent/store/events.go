package store

import (
	"context"
	"database/sql"

	"github.com/conduit-agent/conduit/spec"
)

// keepEvents is the number of events that are kept.
const keepEvents = 10_000

// Events returns up to limit events with an id above after, oldest first. When after is
// negative it returns the newest ones instead, oldest first too.
func (db *DB) Events(ctx context.Context, after int64, limit int) (events []spec.Event, err error) {
	query := `SELECT id, at, pipeline_id, file, type, reason, message FROM events WHERE id > ? ORDER BY id LIMIT ?`
	if after < 0 {
		query = `SELECT * FROM (SELECT id, at, pipeline_id, file, type, reason, message FROM events WHERE id > ? ORDER BY id DESC LIMIT ?) ORDER BY id`
	}
	err = db.use(func(p *pools) (err error) {
		events, err = queryAll(ctx, p.reader, scanEvent, query, after, max(limit, 0))
		return err
	})
	return events, wrap(err, "cannot read events")
}

func scanEvent(s scanner) (e spec.Event, err error) {
	var at int64
	err = s.Scan(&e.ID, &at, &e.Pipeline, &e.File, &e.Type, &e.Reason, &e.Message)
	e.At = fromNanos(at)
	return e, err
}

// insertEvents records events and forgets the oldest beyond keepEvents.
func (db *DB) insertEvents(tx *sql.Tx, events []spec.Event) error {
	if len(events) == 0 {
		return nil
	}
	for _, e := range events {
		if e.At.IsZero() {
			e.At = db.now()
		}
		if _, err := exec(tx, `INSERT INTO events (id, at, pipeline_id, file, type, reason, message) VALUES (NULLIF(?, 0), ?, ?, ?, ?, ?, ?)`,
			e.ID, nanos(e.At), e.Pipeline, e.File, e.Type, e.Reason, e.Message); err != nil {
			return err
		}
	}
	_, err := exec(tx, `DELETE FROM events WHERE id <= (SELECT max(id) FROM events) - ?`, keepEvents)
	return err
}
