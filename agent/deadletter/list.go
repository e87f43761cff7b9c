package deadletter

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/spec"
)

// scanTime is the time limit of a page; the last step may read up to scanStep dead letters more. Rare matches are found
// over several pages.
var scanTime = 15 * time.Millisecond

const scanStep = 2000

const (
	entryBytes   = 4 << 10 // maximum size of an entry of a page, with its JSON
	answerCopies = 4       // copies of a record that is shown, in the answer and on the way there
)

// MaxPage is the maximum number of entries of a page.
const MaxPage = 500

const columns = `id, pipeline_id, at, last_at, times, source_id, stage, refused_by, generation, digest, key, error, ` +
	`stopped, edited, bytes`

// List returns a page of up to limit dead letters of a pipeline that match the filter, newest first, with ids below
// before; 0 starts with the newest.
func (s *Store) List(
	ctx context.Context, pipeline string, f spec.DeadLetterFilter, before int64, limit int,
) (spec.DeadLetterPage, error) {
	page := spec.DeadLetterPage{DeadLetters: []spec.DeadLetter{}, Totals: spec.DeadLetterTotals{PipelineID: pipeline}}
	if err := s.Flush(ctx); err != nil {
		return page, err
	}
	if !exists(s.Path) {
		return page, nil
	}
	if err := ReserveFor(ctx, s.Memory, min(limit, MaxPage)*entryBytes); err != nil {
		return page, err
	}
	err := s.use(ctx, func(db *sql.DB) error {
		if err := totalsOf(ctx, db, &page.Totals); err != nil {
			return err
		}
		low, high, err := timeBounds(ctx, db, pipeline, f)
		if err != nil {
			return err
		}
		if before > 0 {
			high = min(high, before)
		}
		scan := scanner{db: db, pipeline: pipeline, filter: f, descending: true, limit: min(limit, MaxPage),
			until: time.Now().Add(scanTime)}
		page.DeadLetters, page.Next, err = scan.run(ctx, low, high)
		return err
	})
	return page, err
}

func totalsOf(ctx context.Context, db *sql.DB, t *spec.DeadLetterTotals) error {
	err := db.QueryRowContext(ctx, `SELECT count, bytes, dropped FROM totals WHERE pipeline_id = ?`,
		t.PipelineID).Scan(&t.Count, &t.Bytes, &t.Dropped)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return err
}

// maxID is above all ids.
const maxID = 1 << 62

// timeBounds returns the range of ids of the dead letters in the time range of the filter: low <= id < high. Times
// ascend with ids.
func timeBounds(
	ctx context.Context, db *sql.DB, pipeline string, f spec.DeadLetterFilter,
) (low, high int64, err error) {
	first := func(at time.Time, otherwise int64) (id int64, err error) {
		if at.IsZero() {
			return otherwise, nil
		}
		err = db.QueryRowContext(ctx, `SELECT id FROM dead_letters WHERE pipeline_id = ? AND at >= ? ORDER BY at `+
			`LIMIT 1`,
			pipeline, nanos(at)).
			Scan(&id)
		if errors.Is(err, sql.ErrNoRows) {
			return maxID, nil
		}
		return id, err
	}
	if low, err = first(f.Since, 0); err != nil {
		return 0, 0, err
	}
	high, err = first(f.Until, maxID)
	return low, high, err
}

// scanner finds the dead letters of a pipeline that match a filter.
type scanner struct {
	db         *sql.DB
	pipeline   string
	filter     spec.DeadLetterFilter
	descending bool
	limit      int
	until      time.Time
}

// run returns the matches with low <= id < high until it has enough or its time is over. next is the exclusive bound on
// that side for the next call, or 0 when all are read.
func (c *scanner) run(ctx context.Context, low, high int64) (found []spec.DeadLetter, next int64, err error) {
	found = []spec.DeadLetter{}
	for {
		edge, more, err := c.edge(ctx, low, high)
		if err != nil {
			return nil, 0, err
		}
		from, to := edge, high
		if !c.descending {
			from, to = low, edge
		}
		if err := c.step(ctx, from, to, &found); err != nil {
			return nil, 0, err
		}
		switch {
		case len(found) >= c.limit:
			last := found[len(found)-1].ID
			if !c.descending {
				last++
			}
			return found, last, nil
		case !more:
			return found, 0, nil
		case time.Now().After(c.until):
			return found, edge, nil
		}
		if c.descending {
			high = edge
		} else {
			low = edge
		}
	}
}

// edge returns the end of the next step, and whether there may be more after it.
func (c *scanner) edge(ctx context.Context, low, high int64) (id int64, more bool, err error) {
	if c.descending {
		err = c.db.QueryRowContext(ctx, `SELECT id FROM dead_letters WHERE pipeline_id = ? AND id >= ? AND id < ? `+
			`ORDER BY id DESC LIMIT 1 OFFSET ?`, c.pipeline, low, high, scanStep-1).
			Scan(&id)
	} else {
		err = c.db.QueryRowContext(ctx, `SELECT id FROM dead_letters WHERE pipeline_id = ? AND id >= ? AND id < ? `+
			`ORDER BY id LIMIT 1 OFFSET ?`, c.pipeline, low, high, scanStep).Scan(&id)
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return id, err == nil, err
	}
	if c.descending {
		return low, false, nil
	}
	return high, false, nil
}

// step adds the matches with from <= id < to.
func (c *scanner) step(ctx context.Context, from, to int64, found *[]spec.DeadLetter) error {
	query := `SELECT ` + columns + ` FROM dead_letters WHERE pipeline_id = ? AND id >= ? AND id < ?`
	arguments := []any{c.pipeline, from, to}
	add := func(condition, value string) {
		if value != "" {
			query, arguments = query+condition, append(arguments, value)
		}
	}
	add(` AND instr(lower(error), ?) > 0`, lowerASCII(c.filter.Error))
	add(` AND instr(key, ?) > 0`, c.filter.Key)
	add(` AND stage = ?`, string(c.filter.Stage))
	order := ` ORDER BY id LIMIT ?`
	if c.descending {
		order = ` ORDER BY id DESC LIMIT ?`
	}
	rows, err := c.db.QueryContext(ctx, query+order, append(arguments, c.limit-len(*found))...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		l, err := scanDeadLetter(rows)
		if err != nil {
			return err
		}
		*found = append(*found, l)
	}
	return rows.Err()
}

// lowerASCII behaves like SQLite's lower.
func lowerASCII(text string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, text)
}

func scanDeadLetter(row interface{ Scan(...any) error }, more ...any) (l spec.DeadLetter, err error) {
	var at, last, edits int64
	err = row.Scan(append([]any{&l.ID, &l.PipelineID, &at, &last, &l.Times, &l.SourceID, (*string)(&l.Stage),
		&l.RefusedBy, &l.Generation, &l.Digest, &l.Key, &l.Error, &l.Stopped, &edits, &l.Bytes}, more...)...)
	l.Time, l.LastTime, l.Edited = fromNanos(at), fromNanos(last), edits > 0
	return l, err
}

// Get returns a dead letter with its record and refusals, or spec.ErrNotFound.
func (s *Store) Get(ctx context.Context, pipeline string, id int64) (l spec.DeadLetter, err error) {
	if err := s.Flush(ctx); err != nil {
		return l, err
	}
	if !exists(s.Path) {
		return l, spec.ErrNotFound
	}
	var short error // not an error of the store
	err = s.use(ctx, func(db *sql.DB) (err error) {
		var size int
		if err := db.QueryRowContext(ctx, `SELECT bytes FROM dead_letters WHERE pipeline_id = ? AND id = ?`, pipeline,
			id).Scan(&size); errors.Is(err, sql.ErrNoRows) {
			return spec.ErrNotFound
		} else if err != nil {
			return err
		}
		if short = ReserveFor(ctx, s.Memory, answerCopies*size); short != nil {
			return nil
		}
		var body []byte
		var refusals string
		row := db.QueryRowContext(ctx, `SELECT `+columns+
			`, record, refusals FROM dead_letters JOIN bodies USING (id) WHERE pipeline_id = ? AND id = ?`, pipeline,
			id)
		if l, err = scanDeadLetter(row, &body, &refusals); errors.Is(err, sql.ErrNoRows) {
			return spec.ErrNotFound
		}
		if err == nil {
			err = complete(&l, body, refusals)
		}
		return err
	})
	return l, cmp.Or(err, short)
}

// complete adds the record and the refusals.
func complete(l *spec.DeadLetter, body []byte, refusals string) error {
	if err := json.Unmarshal([]byte(refusals), &l.Refusals); err != nil {
		return err
	}
	l.Error = l.Refusals[len(l.Refusals)-1].Error
	return show(l, body)
}

// show sets the records of a dead letter for people.
func show(l *spec.DeadLetter, whole []byte) error {
	body, original, err := split(whole)
	if err != nil {
		return err
	}
	l.Record = withoutExact(body)
	if original != nil {
		l.Original = withoutExact(original)
	}
	return nil
}
