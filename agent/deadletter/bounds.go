package deadletter

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"time"
)

// Intervals of dropping old dead letters, and of writing pending ones when no commit does so.
const (
	ageInterval   = time.Minute
	writeInterval = 100 * time.Millisecond
)

// dropAtOnce is the maximum number of dead letters that one statement drops.
const dropAtOnce = 1000

// Run writes pending dead letters and drops old ones until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	s.init()
	age := time.NewTicker(ageInterval)
	defer age.Stop()
	s.dropOld(ctx)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-age.C:
			s.dropOld(ctx)
		case <-s.wake:
			s.writeSoon(ctx)
		}
	}
}

// writeSoon waits for a commit of positions to write the pending dead letters, and otherwise writes them itself.
func (s *Store) writeSoon(ctx context.Context) {
	select {
	case <-time.After(writeInterval):
	case <-ctx.Done():
		return
	}
	if err := s.Flush(ctx); err != nil && ctx.Err() == nil {
		s.Log.Error("cannot write dead letters, trying again", "component", "dead-letters", "err", err)
		time.AfterFunc(time.Second, s.wake.Notify)
	}
}

func (s *Store) dropOld(ctx context.Context) {
	if !exists(s.Path) {
		return
	}
	err := s.use(ctx, func(db *sql.DB) error {
		return s.bounded(ctx, db, func(*sql.Tx) error { return nil })
	})
	if err != nil && ctx.Err() == nil {
		s.Log.Warn("cannot prune dead letters, trying again later", "component",
			"dead-letters", "err", err)
	}
}

// limiter enforces the limits.
type limiter struct {
	warned map[string]time.Time // time of the last warning, by pipeline
}

// dropper drops dead letters in one transaction.
type dropper struct {
	*limiter
	tx  *sql.Tx
	log *slog.Logger
}

// enforce drops the excess over the limits, the oldest dead letters of the largest queue first.
func (l *limiter) enforce(tx *sql.Tx, limits Limits, now time.Time, log *slog.Logger) error {
	d := dropper{l, tx, log}
	if limits.Age > 0 {
		if err := d.dropBefore(now.Add(-limits.Age)); err != nil {
			return err
		}
	}
	for {
		var count, bytes int64
		if err := tx.QueryRow(`SELECT coalesce(sum(count), 0), coalesce(sum(bytes), 0) FROM totals`).Scan(&count,
			&bytes); err != nil {
			return err
		}
		var n int64
		by := "bytes"
		switch {
		case limits.Count > 0 && count > limits.Count:
			by, n = "count", min(count-limits.Count, dropAtOnce)
		case limits.Bytes > 0 && bytes > limits.Bytes:
			n = overshoot(count, bytes, limits.Bytes)
		default:
			return nil
		}
		var pipeline string
		if err := tx.QueryRow(`SELECT pipeline_id FROM totals WHERE count > 0 ORDER BY ` + by +
			` DESC LIMIT 1`).Scan(&pipeline); err != nil {
			return err
		}
		if _, err := d.drop(pipeline, `SELECT id FROM dead_letters WHERE pipeline_id = ? ORDER BY id LIMIT ?`, pipeline,
			n); err != nil {
			return err
		}
	}
}

// overshoot returns how many dead letters of average size exceed the limit of bytes, at least 1 and at most dropAtOnce.
func overshoot(count, bytes, limit int64) int64 {
	return min(max(1, count*(bytes-limit)/bytes), dropAtOnce)
}

// dropBefore drops the dead letters that were refused before at.
func (d dropper) dropBefore(at time.Time) error {
	for {
		var pipeline string
		err := d.tx.QueryRow(`SELECT t.pipeline_id FROM totals t WHERE EXISTS (SELECT 1 FROM dead_letters l WHERE `+
			`l.pipeline_id = t.pipeline_id AND l.at < ?) LIMIT 1`, nanos(at)).Scan(&pipeline)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err == nil {
			_, err = d.drop(
				pipeline,
				`SELECT id FROM dead_letters WHERE pipeline_id = ? AND at < ? ORDER BY id LIMIT ?`,
				pipeline,
				nanos(at),
				dropAtOnce,
			)
		}
		if err != nil {
			return err
		}
	}
}

// drop drops the selected dead letters of a pipeline because of the limits. It counts them as dropped and logs a
// warning.
func (d dropper) drop(pipeline, query string, arguments ...any) (int64, error) {
	n, err := remove(d.tx, pipeline, query, arguments...)
	if err != nil {
		return n, err
	}
	if _, err := d.tx.Exec(`UPDATE totals SET dropped = dropped + ? WHERE pipeline_id = ?`, n, pipeline); err != nil {
		return n, err
	}
	d.warn(pipeline, n)
	return n, nil
}

// remove removes the selected dead letters of a pipeline.
func remove(tx *sql.Tx, pipeline, query string, arguments ...any) (n int64, err error) {
	var bytes int64
	if err := tx.QueryRow(`SELECT coalesce(sum(bytes), 0) FROM dead_letters WHERE id IN (`+query+`)`,
		arguments...).Scan(&bytes); err != nil {
		return 0, err
	}
	result, err := tx.Exec(`DELETE FROM dead_letters WHERE id IN (`+query+`)`, arguments...)
	if err != nil {
		return 0, err
	}
	if n, err = result.RowsAffected(); err != nil {
		return 0, err
	}
	_, err = tx.Exec(`UPDATE totals SET count = count - ?, bytes = bytes - ? WHERE pipeline_id = ?`, n, bytes, pipeline)
	return n, err
}

// warnInterval is the shortest time between two warnings about the same pipeline.
const warnInterval = time.Minute

// warn logs that dead letters of a pipeline were dropped.
func (d dropper) warn(pipeline string, n int64) {
	if n == 0 || time.Since(d.warned[pipeline]) < warnInterval {
		return
	}
	if d.warned == nil {
		d.warned = map[string]time.Time{}
	}
	d.warned[pipeline] = time.Now()
	d.log.Warn("dead letters were dropped because there are too many or they are too old", "component", "dead-letters",
		"pipeline_id", pipeline, "dropped", n)
}
