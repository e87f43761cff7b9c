package deadletter

import (
	"context"
	"database/sql"

	"github.com/conduit-agent/conduit/plugins/record"
)

// Stopped is a dead letter whose record stopped its pipeline. The source delivers the record again.
type Stopped struct {
	Pipeline   string
	SourceID   string // qualified
	Position   record.Position
	Generation int64 // of the pipeline at the last refusal

	id    int64
	times int64 // number of refusals
}

// maxStopped is the maximum number of dead letters that Stopped returns.
const maxStopped = 100

// Stopped returns the newest dead letters whose records stopped a pipeline, except those that were edited.
func (s *Store) Stopped(ctx context.Context, pipeline string) (all []Stopped, err error) {
	if err := s.Flush(ctx); err != nil || !exists(s.Path) {
		return nil, err
	}
	err = s.use(ctx, func(db *sql.DB) error {
		rows, err := db.QueryContext(ctx, `SELECT id, times, source_id, generation, record FROM dead_letters JOIN bodies `+
			`USING (id) WHERE pipeline_id = ? AND stopped AND edited = 0 ORDER BY id DESC LIMIT ?`, pipeline, maxStopped)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			one := Stopped{Pipeline: pipeline}
			var body []byte
			if err := rows.Scan(&one.id, &one.times, &one.SourceID, &one.Generation, &body); err != nil {
				return err
			}
			var r Replay
			if err := r.decode(body); err != nil {
				return err
			}
			one.Position = r.Record.Position
			all = append(all, one)
		}
		return rows.Err()
	})
	return all, err
}

// Delivered soon removes a dead letter whose record its source delivered again and the pipeline settled, unless the
// record was refused again, or was edited. It does not block.
func (s *Store) Delivered(l Stopped) {
	s.init()
	s.queue.remove(l)
	s.wake.Notify()
}

// removeDelivered removes the dead letters passed to Delivered. After an error, the next call removes them.
func (s *Store) removeDelivered(ctx context.Context) error {
	if len(s.queue.toRemove()) == 0 || !exists(s.Path) {
		return nil
	}
	removed := map[string]int64{}
	err := s.use(ctx, func(db *sql.DB) error {
		all := s.queue.toRemove()
		if err := transact(ctx, db, func(tx *sql.Tx) error {
			for _, l := range all {
				n, err := remove(tx, l.Pipeline, `SELECT id FROM dead_letters WHERE pipeline_id = ? AND id = ? AND stopped `+
					`AND times = ? AND edited = 0`, l.Pipeline, l.id, l.times)
				if err != nil {
					return err
				}
				removed[l.Pipeline] += n
			}
			return nil
		}); err != nil {
			return err
		}
		s.queue.removed(len(all))
		return nil
	})
	if err != nil {
		return err
	}
	s.changed()
	for pipeline, n := range removed {
		if n > 0 {
			s.Log.Info("removed dead letters whose records were delivered again and settled", "component", "dead-letters",
				"pipeline_id", pipeline, "count", n)
		}
	}
	return nil
}
