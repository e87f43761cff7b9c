package store

import (
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// epochGap is how far epochs are moved on in a file that was put in place, beyond those of runs that it
// does not know of.
const epochGap = 1 << 20

// Adopted says which sources go back, because a file of earlier was put in the place of the store.
type Adopted struct {
	Sources []spec.Checkpoint // by id

	generation int32
	done       bool
}

// Adopted returns nil unless a file of earlier was put in the place of the store since it was open last.
func (q *sqlite) Adopted() *Adopted { return q.adopted }

// run moves all epochs on, so that no run that the file does not know of can save a position or is taken for a
// later one, and notes it for each source.
func (a *Adopted) run(ctx context.Context, writer *sql.DB, now time.Time) error {
	all, err := readCheckpoints(ctx, writer)
	if err != nil {
		return err
	}
	tx, err := writer.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := a.adopt(tx, all, now); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	a.Sources, a.done = all, true
	return nil
}

func (a *Adopted) adopt(tx *sql.Tx, sources []spec.Checkpoint, now time.Time) error {
	if _, err := exec(tx, `INSERT INTO runs (pipeline_id, epoch) VALUES ('', ?1) ON CONFLICT (pipeline_id) DO NOTHING`, 0); err != nil {
		return err
	}
	if _, err := exec(tx, `UPDATE runs SET epoch = epoch + ?`, epochGap); err != nil {
		return err
	}
	for i := range sources {
		c := &sources[i]
		if _, err := exec(tx, `INSERT INTO events (at, pipeline_id, file, type, reason, message) VALUES (?, ?, '', 'warning', 'StoreReplaced', ?)`, nanos(now), c.PipelineID,
			fmt.Sprintf("an earlier file was put in the place of the store: source %s goes on after position %s, and what it delivered since is delivered again", c.ConnectorID, PositionText(c.Position))); err != nil {
			return err
		}
	}
	_, err := exec(tx, fmt.Sprintf(`PRAGMA user_version = %d`, a.generation))
	return err
}

// readCheckpoints returns all checkpoints, by id.
func readCheckpoints(ctx context.Context, q querier) ([]spec.Checkpoint, error) {
	return queryAll(ctx, q, func(s scanner) (c spec.Checkpoint, err error) {
		return c, s.Scan(&c.ConnectorID, &c.PipelineID, (*[]byte)(&c.Position), &c.Epoch, &c.Sequence)
	}, `SELECT connector_id, pipeline_id, position, epoch, sequence FROM positions ORDER BY connector_id`)
}

// maxPositionText is how much of a position is shown.
const maxPositionText = 80

// PositionText returns a position as people can read it.
func PositionText(p record.Position) string {
	text := string(p)
	printable := utf8.ValidString(text)
	for _, r := range text {
		printable = printable && unicode.IsPrint(r)
	}
	if !printable {
		text = "base64:" + base64.StdEncoding.EncodeToString(p)
	}
	if len(text) > maxPositionText {
		text = text[:maxPositionText] + "…"
	}
	return text
}
