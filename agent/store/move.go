package store

import (
	"context"
	"database/sql"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// MoveCheckpoint replaces the position of a source of d's pipeline, or deletes it when c has none. It returns
// spec.ErrConflict if the present position is not before. Runs of the pipeline that have begun can no longer save
// positions. MoveCheckpoint records the change in the history of the pipeline, and saves event.
func (db *DB) MoveCheckpoint(
	ctx context.Context, d *spec.Declaration, c spec.Checkpoint, before record.Position, event spec.Event,
) error {
	err := db.write(ctx, func(tx *sql.Tx) error {
		if err := checkPosition(tx, c.ConnectorID, before); err != nil {
			return err
		}
		if err := move(tx, c); err != nil {
			return err
		}
		if err := insertRevision(tx, d, db.now(), "api", actionOfMove(c), ""); err != nil {
			return err
		}
		return db.insertEvents(tx, []spec.Event{event})
	}, nil)
	return wrap(err, "cannot move the position of connector %q", c.ConnectorID)
}

// actionOfMove returns the action of the revision.
func actionOfMove(c spec.Checkpoint) string {
	if c.Position == nil {
		return "reset position of " + c.ConnectorID
	}
	return "set position of " + c.ConnectorID
}

// checkPosition returns spec.ErrConflict unless the position of a source is before.
func checkPosition(tx *sql.Tx, connectorID string, before record.Position) error {
	var same bool
	err := tx.QueryRow(`SELECT (SELECT position FROM positions WHERE connector_id = ?) IS ?`, connectorID,
		[]byte(before)).Scan(&same)
	if err == nil && !same {
		err = spec.ErrConflict
	}
	return err
}

func move(tx *sql.Tx, c spec.Checkpoint) error {
	epoch, err := nextEpoch(tx, c.PipelineID)
	if err != nil {
		return err
	}
	if c.Position == nil {
		_, err := exec(tx, `DELETE FROM positions WHERE connector_id = ?`, c.ConnectorID)
		return err
	}
	_, err = exec(tx, `INSERT OR REPLACE INTO positions (connector_id, pipeline_id, position, epoch, sequence, `+
		`plugin) VALUES (?, ?, ?, ?, 0, ?)`,
		c.ConnectorID, c.PipelineID, []byte(c.Position), epoch, c.Plugin)
	return err
}
