package deadletter

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// Edit replaces the record of a dead letter.
func (s *Store) Edit(ctx context.Context, pipeline string, id int64, r *record.Record) (l spec.DeadLetter, err error) {
	if err := s.Flush(ctx); err != nil {
		return l, err
	}
	if !exists(s.Path) {
		return l, spec.ErrNotFound
	}
	err = s.change(ctx, func(tx *sql.Tx) error {
		var before []byte
		if err := tx.QueryRow(`SELECT record FROM dead_letters JOIN bodies USING (id) WHERE pipeline_id = ? AND id = ?`,
			pipeline, id).Scan(&before); errors.Is(err, sql.ErrNoRows) {
			return spec.ErrNotFound
		} else if err != nil {
			return err
		}
		_, original, err := split(before)
		if err != nil {
			return err
		}
		body := appendOriginal(encode(*r), original)
		if _, err := tx.Exec(`UPDATE dead_letters SET key = ?, bytes = ?, edited = edited + 1 WHERE id = ?`,
			keyText(r.Key),
			len(body), id); err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE bodies SET record = ? WHERE id = ?`, body, id); err != nil {
			return err
		}
		_, err = tx.Exec(`UPDATE totals SET bytes = bytes + ? WHERE pipeline_id = ?`, len(body)-len(before), pipeline)
		return err
	})
	if err != nil {
		return l, err
	}
	return s.Get(ctx, pipeline, id)
}

// removeAtOnce is the maximum number of dead letters that one transaction removes.
const removeAtOnce = 10_000

// Drop drops the dead letters of a pipeline with these ids.
func (s *Store) Drop(ctx context.Context, pipeline string, ids []int64) (n int64, err error) {
	if err := s.Flush(ctx); err != nil {
		return 0, err
	}
	return s.remove(ctx, pipeline, ids)
}

func (s *Store) remove(ctx context.Context, pipeline string, ids []int64) (n int64, err error) {
	if len(ids) == 0 || !exists(s.Path) {
		return 0, nil
	}
	err = s.change(ctx, func(tx *sql.Tx) (err error) {
		n, err = remove(tx, pipeline, `SELECT id FROM dead_letters WHERE pipeline_id = ? AND id IN (`+list(ids)+`)`,
			pipeline)
		return err
	})
	return n, err
}

// list returns ids as an SQL list.
func list(ids []int64) string {
	var text strings.Builder
	for i, id := range ids {
		if i > 0 {
			text.WriteByte(',')
		}
		fmt.Fprint(&text, id)
	}
	return text.String()
}

// DropAll drops the present dead letters of a pipeline that match the filter.
func (s *Store) DropAll(ctx context.Context, pipeline string, f spec.DeadLetterFilter) (n int64, err error) {
	err = s.each(ctx, pipeline, f, removeAtOnce, func(found []spec.DeadLetter) error {
		ids := make([]int64, len(found))
		for i := range found {
			ids[i] = found[i].ID
		}
		k, err := s.remove(ctx, pipeline, ids)
		n += k
		return err
	})
	return n, err
}

// Forget drops all dead letters of a pipeline and its totals. found reports whether there were any.
func (s *Store) Forget(ctx context.Context, pipeline string) (found bool, err error) {
	if _, err := s.DropAll(ctx, pipeline, spec.DeadLetterFilter{}); err != nil || !exists(s.Path) {
		return false, err
	}
	err = s.change(ctx, func(tx *sql.Tx) error {
		result, err := tx.Exec(`DELETE FROM totals WHERE pipeline_id = ?`, pipeline)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		found = n > 0
		return err
	})
	if err != nil || !found {
		return found, err
	}
	return found, s.use(ctx, func(db *sql.DB) error {
		_, err := db.ExecContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`) // the log still contains the deleted data
		return err
	})
}

// each calls f with the present dead letters of a pipeline that match the filter, oldest first, up to n at a time.
func (s *Store) each(
	ctx context.Context, pipeline string, filter spec.DeadLetterFilter, n int, f func([]spec.DeadLetter) error,
) error {
	if err := s.Flush(ctx); err != nil || !exists(s.Path) {
		return err
	}
	low, high, err := idsBetween(ctx, s, pipeline, filter)
	if err != nil {
		return err
	}
	for low > 0 {
		var found []spec.DeadLetter
		err := s.use(ctx, func(db *sql.DB) (err error) {
			scan := scanner{db: db, pipeline: pipeline, filter: filter, limit: n, until: time.Now().Add(scanTime)}
			found, low, err = scan.run(ctx, low, high)
			return err
		})
		if err == nil && len(found) > 0 {
			err = f(found)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// idsBetween returns the range of ids, low <= id < high, of the present dead letters in the time range of f.
func idsBetween(ctx context.Context, s *Store, pipeline string, f spec.DeadLetterFilter) (low, high int64, err error) {
	err = s.use(ctx, func(db *sql.DB) (err error) {
		var newest int64
		if err := db.QueryRowContext(ctx, `SELECT coalesce(max(id), 0) FROM dead_letters WHERE pipeline_id = ?`,
			pipeline).Scan(&newest); err != nil {
			return err
		}
		low, high, err = timeBounds(ctx, db, pipeline, f)
		low, high = max(low, 1), min(high, newest+1)
		return err
	})
	return low, high, err
}

// Replay is a dead letter to be replayed.
type Replay struct {
	ID       int64
	Edits    int64 // number of edits
	Stage    spec.DeadLetterStage
	Stopped  bool
	SourceID string
	Entry    Entry
	Record   record.Record
	original []byte // stored form of the record as it was read; nil: not kept
}

// decode sets the record from its stored form.
func (r *Replay) decode(whole []byte) error {
	body, original, err := split(whole)
	if err != nil {
		return err
	}
	r.original = original
	r.Record, err = decode(body)
	return err
}

// Original returns the record as it was read, or nil if it is not kept.
func (r *Replay) Original() (*record.Record, error) {
	if r.original == nil {
		return nil, nil
	}
	original, err := decode(r.original)
	return &original, err
}
