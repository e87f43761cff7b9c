package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/texts"
)

// Limits of the stored events and of a page of events. The newest event is always kept, and a page has at least one
// event, whatever the size.
const (
	keepEvents     = 10_000
	keepEventBytes = 16 << 20
	pageEventBytes = 2 << 20
)

// eventBytes is an SQL expression for the size of an event. SQLite computes it without reading the texts.
const eventBytes = `(octet_length(pipeline_id) + octet_length(file) + octet_length(reason) + octet_length(message))`

func sizeOfEvent(e *spec.Event) int64 {
	return int64(len(e.Pipeline) + len(e.File) + len(e.Reason) + len(e.Message))
}

// Events returns up to limit events with an id above after, oldest first. A negative after selects the newest events
// instead, also oldest first. It returns fewer if they are large, and none only if there are none.
func (db *DB) Events(ctx context.Context, after int64, limit int) (events []spec.Event, err error) {
	order := "ASC"
	if after < 0 {
		order = "DESC"
	}
	err = db.use(func(p *pools) (err error) {
		events, err = eventsPage(ctx, p.reader, order, after, limit)
		return err
	})
	if after < 0 {
		slices.Reverse(events)
	}
	return events, wrap(err, "cannot read events")
}

// eventsPage reads one event at a time, so that at most one huge text of an earlier version is in memory.
func eventsPage(ctx context.Context, q querier, order string, after int64, limit int) (events []spec.Event, err error) {
	const most = texts.MaxError + 1 // characters; longer texts are cut
	rows, err := q.QueryContext(ctx, `SELECT id, at, pipeline_id, file, type, reason, substr(message, 1, ?)
		FROM events WHERE id > ? ORDER BY id `+order+` LIMIT ?`,
		most, after, max(limit, 0))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	events = []spec.Event{}
	for size := int64(0); rows.Next(); {
		e, err := scanEvent(rows)
		if err != nil {
			return nil, err
		}
		if size += sizeOfEvent(&e); size > pageEventBytes && len(events) > 0 {
			return events, nil
		}
		events = append(events, e)
	}
	return events, rows.Err()
}

func scanEvent(s scanner) (e spec.Event, err error) {
	var at int64
	err = s.Scan(&e.ID, &at, &e.Pipeline, &e.File, &e.Type, &e.Reason, &e.Message)
	e.At = fromNanos(at)
	e.Bound()
	return e, err
}

// insertEvents records events and deletes the oldest ones beyond the limits.
func (db *DB) insertEvents(tx *sql.Tx, events []spec.Event) error {
	if len(events) == 0 {
		return nil
	}
	var added int64
	for _, e := range events {
		if e.At.IsZero() {
			e.At = db.now()
		}
		e.Bound()
		if _, err := exec(tx, `INSERT INTO events (id, at, pipeline_id, file, type, reason, message) VALUES `+
			`(NULLIF(?, 0), ?, ?, ?, ?, ?, ?)`,
			e.ID, nanos(e.At), e.Pipeline, e.File, e.Type, e.Reason, e.Message); err != nil {
			return err
		}
		added += sizeOfEvent(&e)
	}
	if _, err := exec(tx, `DELETE FROM events WHERE id <= (SELECT max(id) FROM events) - ?`, keepEvents); err != nil {
		return err
	}
	return db.limitEventBytes(tx, added)
}

// limitEventBytes deletes the oldest events if all events together exceed keepEventBytes. It measures their size if
// that is unknown, or if it could exceed the limit, because the known size does not shrink with deletions.
func (db *DB) limitEventBytes(tx *sql.Tx, added int64) error {
	if known := db.eventBytes.Load(); known > 0 && known+added <= keepEventBytes {
		db.eventBytes.Add(added)
		return nil
	}
	if _, err := exec(tx, `DELETE FROM events WHERE id < (SELECT max(id) FROM events) AND id <=
		(SELECT max(id) FROM (SELECT id, sum(`+eventBytes+`) OVER (ORDER BY id DESC) AS total FROM events)
		WHERE total > ?)`, keepEventBytes); err != nil {
		return err
	}
	var now int64
	if err := tx.QueryRow(`SELECT sum(` + eventBytes + `) FROM events`).Scan(&now); err != nil {
		return err
	}
	db.eventBytes.Store(max(now, 1))
	return nil
}
