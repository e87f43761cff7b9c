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

// epochGap is added to the epochs in a restored file. It exceeds the number of runs that the file does not know of.
const epochGap = 1 << 20

// fenceRestored raises all epochs, so that runs that began after the backup can no longer save positions, and new runs
// have higher epochs. It records an event for each source, sets the generation of the file, and returns the checkpoints
// of the sources by connector id.
func fenceRestored(ctx context.Context, writer *sql.DB, generation int32, now time.Time) ([]spec.Checkpoint, error) {
	sources, err := readCheckpoints(ctx, writer)
	if err != nil {
		return nil, err
	}
	tx, err := writer.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	if err := fence(ctx, tx, sources, generation, now); err != nil {
		return nil, errors.Join(err, tx.Rollback())
	}
	return sources, tx.Commit()
}

func fence(ctx context.Context, tx *sql.Tx, sources []spec.Checkpoint, generation int32, now time.Time) error {
	if _, err := tx.ExecContext(ctx,
		`INSERT INTO runs (pipeline_id, epoch) VALUES ('', 0) ON CONFLICT (pipeline_id) DO NOTHING`); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `UPDATE runs SET epoch = epoch + ?`, epochGap); err != nil {
		return err
	}
	for i := range sources {
		c := &sources[i]
		if _, err := tx.ExecContext(ctx,
			`INSERT INTO events (at, pipeline_id, file, type, reason, message) VALUES (?, ?, '', 'warning', `+
				`'StoreReplaced', ?)`, now.UnixNano(), c.PipelineID,
			fmt.Sprintf("the store was replaced by an older file: source %s resumes after position %s, and delivers "+
				"later records again", c.ConnectorID, PositionText(c.Position))); err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, fmt.Sprintf(`PRAGMA user_version = %d`, generation))
	return err
}

// readCheckpoints returns all checkpoints in a store, by connector id.
func readCheckpoints(ctx context.Context, db *sql.DB) (all []spec.Checkpoint, err error) {
	rows, err := db.QueryContext(ctx,
		`SELECT connector_id, pipeline_id, position, epoch, sequence FROM positions ORDER BY connector_id`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var c spec.Checkpoint
		if err := rows.Scan(&c.ConnectorID, &c.PipelineID, (*[]byte)(&c.Position), &c.Epoch, &c.Sequence); err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, rows.Err()
}

// maxPositionText is the maximum length of a displayed position.
const maxPositionText = 80

// PositionText returns a position in readable form.
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
