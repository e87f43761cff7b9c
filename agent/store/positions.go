package store

import (
	"context"
	"database/sql"
	"errors"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// BeginRun returns the epoch of a new run of the pipeline, greater than any before.
// From then on positions of earlier epochs are refused.
func (db *DB) BeginRun(ctx context.Context, pipelineID string) (epoch int64, err error) {
	err = db.write(ctx, func(tx *sql.Tx) (err error) {
		epoch, err = nextEpoch(tx, pipelineID)
		return err
	}, nil)
	return epoch, wrap(err, "cannot begin a run of pipeline %q", pipelineID)
}

func nextEpoch(tx *sql.Tx, pipelineID string) (epoch int64, err error) {
	err = tx.QueryRow(`INSERT INTO runs (pipeline_id, epoch) VALUES (?, 1)
		ON CONFLICT (pipeline_id) DO UPDATE SET epoch = epoch + 1 RETURNING epoch`, pipelineID).Scan(&epoch)
	return epoch, err
}

// Position returns where the source with this qualified id got, nil if nowhere. It means
// something only to the plugin of this name, and to any where that is "".
func (db *DB) Position(ctx context.Context, connectorID string) (pos record.Position, plugin string, err error) {
	err = db.use(func(p *pools) error {
		// Not bound to the end of ctx, which costs more than the query.
		return p.reader.QueryRowContext(context.WithoutCancel(ctx), `SELECT position, plugin FROM positions WHERE connector_id = ?`, connectorID).Scan((*[]byte)(&pos), &plugin)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, "", nil
	}
	return pos, plugin, wrap(err, "cannot read the position of connector %q", connectorID)
}

// SavePositions makes all positions durable in one transaction. When it returns nil
// they survive a power cut; when it returns an error none of them changed. A position
// of an epoch that is not its pipeline's latest is refused (ErrFenced), and so is one
// with a smaller sequence than the one before it (ErrOutOfOrder); the error is then a
// *PositionError. Saving the same sequence again changes nothing.
func (db *DB) SavePositions(ctx context.Context, positions []spec.Checkpoint) error {
	return db.write(ctx, func(tx *sql.Tx) error {
		for i := range positions {
			if err := savePosition(tx, &positions[i]); err != nil {
				return &PositionError{positions[i].ConnectorID, positions[i].PipelineID, err}
			}
		}
		return nil
	}, nil)
}

func savePosition(tx *sql.Tx, p *spec.Checkpoint) error {
	n, err := exec(tx, `INSERT INTO positions (connector_id, pipeline_id, position, epoch, sequence, plugin)
		SELECT ?1, ?2, ?3, ?4, ?5, ?6 WHERE ?4 = (SELECT epoch FROM runs WHERE pipeline_id = ?2)
		ON CONFLICT (connector_id) DO UPDATE
		SET position = excluded.position, epoch = excluded.epoch, sequence = excluded.sequence, plugin = excluded.plugin
		WHERE excluded.epoch > epoch OR excluded.sequence > sequence`,
		p.ConnectorID, p.PipelineID, []byte(p.Position), p.Epoch, p.Sequence, p.Plugin)
	if err != nil || n > 0 {
		return err
	}
	return whyUnchanged(tx, p)
}

// whyUnchanged tells apart the reasons for a position not to replace the one before.
func whyUnchanged(tx *sql.Tx, p *spec.Checkpoint) error {
	var epoch, sequence int64
	err := tx.QueryRow(`SELECT coalesce((SELECT epoch FROM runs WHERE pipeline_id = ?), -1),
		coalesce((SELECT sequence FROM positions WHERE connector_id = ?), 0)`, p.PipelineID, p.ConnectorID).Scan(&epoch, &sequence)
	switch {
	case err != nil:
		return err
	case epoch != p.Epoch:
		return ErrFenced
	case sequence != p.Sequence:
		return ErrOutOfOrder
	}
	return nil
}
