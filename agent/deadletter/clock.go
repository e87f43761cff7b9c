package deadletter

import (
	"context"
	"database/sql"
	"time"
)

// noAgeFor is the time after its start in which an agent drops nothing by age. If the host started with a wrong clock,
// there is time to set it.
const noAgeFor = time.Hour

// unset is earlier than the time of any clock that was set.
var unset = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

// bounded performs do in a transaction, and enforces the limits in it.
func (s *Store) bounded(ctx context.Context, db *sql.DB, do func(tx *sql.Tx) error) error {
	err := transact(ctx, db, func(tx *sql.Tx) error {
		limits, now, err := s.followClock(tx)
		if err != nil {
			return err
		}
		if err := do(tx); err != nil {
			return err
		}
		return s.limiter.enforce(tx, limits, now, s.Log)
	})
	if err == nil {
		s.jump = 0
	}
	return err
}

// followClock moves the times of dead letters when the clock was set, so that they age with the time that passes. It
// returns the limits that apply now.
func (s *Store) followClock(tx *sql.Tx) (limits Limits, now time.Time, err error) {
	now, jump, since := s.Clock.Compare()
	s.jump += jump
	if s.jump == 0 && s.last > 0 && s.last < nanos(unset) && now.After(unset) {
		s.jump = now.Sub(fromNanos(s.last)) // the clock was set while no agent ran
	}
	if s.jump != 0 {
		err = s.move(tx, nanos(now))
	}
	limits = s.Limits
	if since < noAgeFor {
		limits.Age = 0
	}
	return limits, now, err
}

// move moves the times of dead letters by s.jump. After a jump forward it moves those from before the jump; after a
// jump backward it moves those that would be in the future. Times keep ascending with ids. s.jump is kept until the
// transaction is committed.
func (s *Store) move(tx *sql.Tx, now int64) error {
	after, atLeast := int64(0), int64(0) // id
	if s.jump < 0 {
		if err := tx.QueryRow(`SELECT coalesce(max(id), 0), coalesce(max(at), 0) FROM dead_letters WHERE at <= ?`,
			now).Scan(&after, &atLeast); err != nil {
			return err
		}
	}
	until := max(now, now-int64(s.jump))
	if s.jump > 0 {
		until = now - int64(s.jump)
	}
	result, err := tx.Exec(
		`UPDATE dead_letters SET at = max(at + ?1, ?4 + id - ?3), last_at = max(last_at + ?1, at + ?1) `+
			`WHERE id > ?3 AND at <= ?2`,
		int64(s.jump),
		until,
		after,
		atLeast,
	)
	if err != nil {
		return err
	}
	moved, err := result.RowsAffected()
	if err != nil || moved == 0 {
		return err
	}
	s.Log.Info("the clock of the host was changed, the times of dead letters were adjusted",
		"component", "dead-letters",
		"by", s.jump, "dead_letters", moved)
	return tx.QueryRow(`SELECT max(at) FROM dead_letters`).Scan(&s.last)
}
