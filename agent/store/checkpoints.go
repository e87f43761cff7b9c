package store

import (
	"context"
	"database/sql"
	"errors"

	"github.com/conduit-agent/conduit/spec"
)

// checkpoints stores the positions from which sources resume, and the runs that may save them.
type checkpoints struct{ *sqlite }

// BeginRun returns the epoch of a new run of the pipeline, greater than any before. From then on, positions of earlier
// epochs are refused.
func (s checkpoints) BeginRun(ctx context.Context, pipelineID string) (epoch int64, err error) {
	err = s.write(ctx, func(tx *sql.Tx) (err error) {
		epoch, err = nextEpoch(tx, pipelineID)
		return err
	}, nil)
	return epoch, wrap(err, "cannot begin a run of pipeline %q", pipelineID)
}

func nextEpoch(tx *sql.Tx, pipelineID string) (epoch int64, err error) {
	err = tx.QueryRow(`INSERT INTO runs (pipeline_id, epoch)
		SELECT ?, 1 + coalesce((SELECT epoch FROM runs WHERE pipeline_id = ''), 0) WHERE true
		ON CONFLICT (pipeline_id) DO UPDATE SET epoch = epoch + 1 RETURNING epoch`, pipelineID).Scan(&epoch)
	return epoch, err
}

// endRuns keeps the runs of a deleted pipeline from saving positions. It can delete the pipeline's row, because the
// epochs of other pipelines, and of a new one with this id, start above it.
func endRuns(tx *sql.Tx, pipelineID string) error {
	if _, err := exec(tx, `INSERT INTO runs (pipeline_id, epoch) SELECT '', epoch FROM runs WHERE pipeline_id = ?
		ON CONFLICT (pipeline_id) DO UPDATE SET epoch = max(epoch, excluded.epoch)`, pipelineID); err != nil {
		return err
	}
	_, err := exec(tx, `DELETE FROM runs WHERE pipeline_id = ?`, pipelineID)
	return err
}

// Checkpoint returns the checkpoint of the source with this qualified id, or nil if there is none.
func (s checkpoints) Checkpoint(ctx context.Context, connectorID string) (*spec.Checkpoint, error) {
	c := &spec.Checkpoint{ConnectorID: connectorID}
	err := s.use(func(p *pools) error {
		// The query does not stop when ctx ends, because watching ctx costs more than the query.
		return p.reader.QueryRowContext(context.WithoutCancel(ctx),
			`SELECT pipeline_id, plugin, position, epoch, sequence FROM positions WHERE connector_id = ?`, connectorID).
			Scan(&c.PipelineID, &c.Plugin, (*[]byte)(&c.Position), &c.Epoch, &c.Sequence)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return c, wrap(err, "cannot read the checkpoint of connector %q", connectorID)
}

// SaveCheckpoints makes all checkpoints durable in one transaction. When it returns nil they survive a power cut; when
// it returns an error, no checkpoint has changed. It refuses a checkpoint whose epoch is not its pipeline's latest
// (ErrFenced), or whose sequence is smaller than the previous one (ErrOutOfOrder); the error is then a
// *CheckpointError. Saving the same sequence again changes nothing.
func (s checkpoints) SaveCheckpoints(ctx context.Context, checkpoints []spec.Checkpoint) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		for i := range checkpoints {
			if err := saveCheckpoint(tx, &checkpoints[i]); err != nil {
				return &CheckpointError{checkpoints[i].ConnectorID, checkpoints[i].PipelineID, err}
			}
		}
		return nil
	}, nil)
}

// saveCheckpoint replaces the previous checkpoint, or inserts the first one. One upsert would do both, but SQLite keeps
// a statement journal of 64 KiB for an upsert.
func saveCheckpoint(tx *sql.Tx, c *spec.Checkpoint) error {
	n, err := exec(tx, `UPDATE positions SET position = ?3, epoch = ?4, sequence = ?5, plugin = ?6
		WHERE connector_id = ?1 AND (?4 > epoch OR ?5 > sequence)
		AND ?4 = (SELECT epoch FROM runs WHERE pipeline_id = ?2)`,
		c.ConnectorID, c.PipelineID, []byte(c.Position), c.Epoch, c.Sequence, c.Plugin)
	if err != nil || n > 0 {
		return err
	}
	n, err = exec(tx, `INSERT INTO positions (connector_id, pipeline_id, position, epoch, sequence, plugin)
		SELECT ?1, ?2, ?3, ?4, ?5, ?6 WHERE ?4 = (SELECT epoch FROM runs WHERE pipeline_id = ?2)
		ON CONFLICT (connector_id) DO NOTHING`,
		c.ConnectorID, c.PipelineID, []byte(c.Position), c.Epoch, c.Sequence, c.Plugin)
	if err != nil || n > 0 {
		return err
	}
	return whyUnchanged(tx, c)
}

// whyUnchanged returns the reason why a checkpoint did not replace the previous one.
func whyUnchanged(tx *sql.Tx, c *spec.Checkpoint) error {
	var epoch, sequence int64
	err := tx.QueryRow(`SELECT coalesce((SELECT epoch FROM runs WHERE pipeline_id = ?), -1),
		coalesce((SELECT sequence FROM positions WHERE connector_id = ?), 0)`,
		c.PipelineID, c.ConnectorID).Scan(&epoch, &sequence)
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
