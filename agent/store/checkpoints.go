package store

import (
	"context"
	"database/sql"
	"errors"

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

// Checkpoint returns where the source with this qualified id got, nil if nowhere.
func (db *DB) Checkpoint(ctx context.Context, connectorID string) (*spec.Checkpoint, error) {
	c := &spec.Checkpoint{ConnectorID: connectorID}
	err := db.use(func(p *pools) error {
		// Not bound to the end of ctx, which costs more than the query.
		return p.reader.QueryRowContext(context.WithoutCancel(ctx), `SELECT pipeline_id, plugin, position, epoch, sequence FROM positions WHERE connector_id = ?`, connectorID).
			Scan(&c.PipelineID, &c.Plugin, (*[]byte)(&c.Position), &c.Epoch, &c.Sequence)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return c, wrap(err, "cannot read the checkpoint of connector %q", connectorID)
}

// SaveCheckpoints makes all checkpoints durable in one transaction. When it returns nil
// they survive a power cut; when it returns an error none of them changed. A checkpoint
// of an epoch that is not its pipeline's latest is refused (ErrFenced), and so is one
// with a smaller sequence than the one before it (ErrOutOfOrder); the error is then a
// *CheckpointError. Saving the same sequence again changes nothing.
func (db *DB) SaveCheckpoints(ctx context.Context, checkpoints []spec.Checkpoint) error {
	return db.write(ctx, func(tx *sql.Tx) error {
		for i := range checkpoints {
			if err := saveCheckpoint(tx, &checkpoints[i]); err != nil {
				return &CheckpointError{checkpoints[i].ConnectorID, checkpoints[i].PipelineID, err}
			}
		}
		return nil
	}, nil)
}

func saveCheckpoint(tx *sql.Tx, c *spec.Checkpoint) error {
	n, err := exec(tx, `INSERT INTO positions (connector_id, pipeline_id, position, epoch, sequence, plugin)
		SELECT ?1, ?2, ?3, ?4, ?5, ?6 WHERE ?4 = (SELECT epoch FROM runs WHERE pipeline_id = ?2)
		ON CONFLICT (connector_id) DO UPDATE
		SET position = excluded.position, epoch = excluded.epoch, sequence = excluded.sequence, plugin = excluded.plugin
		WHERE excluded.epoch > epoch OR excluded.sequence > sequence`,
		c.ConnectorID, c.PipelineID, []byte(c.Position), c.Epoch, c.Sequence, c.Plugin)
	if err != nil || n > 0 {
		return err
	}
	return whyUnchanged(tx, c)
}

// whyUnchanged tells apart the reasons for a checkpoint not to replace the one before.
func whyUnchanged(tx *sql.Tx, c *spec.Checkpoint) error {
	var epoch, sequence int64
	err := tx.QueryRow(`SELECT coalesce((SELECT epoch FROM runs WHERE pipeline_id = ?), -1),
		coalesce((SELECT sequence FROM positions WHERE connector_id = ?), 0)`, c.PipelineID, c.ConnectorID).Scan(&epoch, &sequence)
	switch {
	case err != nil:
		return err
	case epoch != c.Epoch:
		return ErrFenced
	case sequence != c.Sequence:
		return ErrOutOfOrder
	}
	return nil
}
