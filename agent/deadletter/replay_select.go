package deadletter

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/spec"
)

// Next returns the next selected dead letters of a pipeline, oldest first. skipped is the number of dead letters left
// out because they stopped the pipeline. At the end it returns neither. Only one goroutine may call it.
type Next func(ctx context.Context) (all []Replay, skipped int, err error)

// Reserve waits until there is memory for n bytes; a nil Reserve does not wait.
type Reserve func(ctx context.Context, n int) error

// cursor iterates over the dead letters of a store.
type cursor struct {
	reserve  Reserve
	store    *Store
	pipeline string
	filter   spec.DeadLetterFilter
	ids      []int64 // ascending; remaining ids of a selection by id
	named    bool
	low      int64 // start of the next read; 0 at the end
	high     int64
	found    []int64 // ascending; to be loaded next
}

// A load ends at this number of dead letters, or after this number of bytes.
const (
	loadAtOnce = 256
	loadBytes  = 1 << 20
)

// Select returns an iterator over the present dead letters that the request selects.
func (s *Store) Select(
	ctx context.Context, pipeline string, request spec.ReplayRequest, reserve Reserve,
) (Next, error) {
	c := &cursor{reserve: reserve, store: s, pipeline: pipeline, ids: slices.Clone(request.IDs),
		named: len(request.IDs) > 0}
	slices.Sort(c.ids)
	c.ids = slices.Compact(c.ids)
	if request.Filter != nil {
		c.filter = *request.Filter
	}
	if err := s.Flush(ctx); err != nil || !exists(s.Path) {
		return c.load, err
	}
	var err error
	c.low, c.high, err = idsBetween(ctx, s, pipeline, c.filter)
	return c.load, err
}

// load implements Next.
func (c *cursor) load(ctx context.Context) (all []Replay, skipped int, err error) {
	for len(all) == 0 && skipped == 0 {
		if len(c.found) == 0 {
			ids, end, err := c.next(ctx)
			if err != nil || end {
				return nil, 0, err
			}
			c.found = ids
		}
		n, size, err := c.measure(ctx)
		if err != nil {
			return nil, 0, err
		}
		if c.reserve != nil {
			if err := c.reserve(ctx, 2*size); err != nil { // for the JSON of a record and the record
				return nil, 0, err
			}
		}
		if all, err = c.read(ctx, c.found[:n]); err != nil {
			return nil, 0, err
		}
		c.found = c.found[n:]
		n = len(all)
		all = slices.DeleteFunc(all, func(r Replay) bool { return r.Stopped })
		skipped = n - len(all)
	}
	return all, skipped, nil
}

// measure returns how many of the found dead letters to load at once, and the bytes of their records.
func (c *cursor) measure(ctx context.Context) (n, size int, err error) {
	err = c.store.use(ctx, func(db *sql.DB) error {
		rows, err := db.QueryContext(ctx, `SELECT id, bytes FROM dead_letters WHERE pipeline_id = ? AND id IN (`+
			list(c.found)+`) ORDER BY id`, c.pipeline)
		if err != nil {
			return err
		}
		defer rows.Close()
		for size < loadBytes && rows.Next() {
			var id int64
			var bytes int
			if err := rows.Scan(&id, &bytes); err != nil {
				return err
			}
			size += bytes
			n = 1 + slices.Index(c.found, id)
		}
		if size < loadBytes { // the remaining ones no longer exist
			n = len(c.found)
		}
		return rows.Err()
	})
	return n, size, err
}

// read returns the dead letters with these ids that still exist, in the order of ids.
func (c *cursor) read(ctx context.Context, ids []int64) (all []Replay, err error) {
	err = c.store.use(ctx, func(db *sql.DB) error {
		rows, err := db.QueryContext(
			ctx,
			`SELECT id, edited, stage, stopped, source_id, entry, record FROM dead_letters JOIN bodies USING (id) `+
				`WHERE pipeline_id = ? AND id IN (`+list(ids)+`) ORDER BY id`, c.pipeline)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			r, err := scanReplay(rows)
			if err != nil {
				return err
			}
			all = append(all, r)
		}
		return rows.Err()
	})
	return all, err
}

func scanReplay(rows *sql.Rows) (r Replay, err error) {
	var entry string
	var body []byte
	if err := rows.Scan(&r.ID, &r.Edits, (*string)(&r.Stage), &r.Stopped, &r.SourceID, &entry, &body); err != nil {
		return r, err
	}
	if err := json.Unmarshal([]byte(entry), &r.Entry); err != nil {
		return r, err
	}
	return r, r.decode(body)
}

func (c *cursor) next(ctx context.Context) (ids []int64, end bool, err error) {
	if c.named {
		n := min(len(c.ids), loadAtOnce)
		ids, c.ids = c.ids[:n], c.ids[n:]
		return ids, n == 0, nil
	}
	if c.low == 0 {
		return nil, true, nil
	}
	err = c.store.use(ctx, func(db *sql.DB) error {
		scan := scanner{db: db, pipeline: c.pipeline, filter: c.filter, limit: loadAtOnce,
			until: time.Now().Add(scanTime)}
		found, next, err := scan.run(ctx, c.low, c.high)
		c.low = next
		for i := range found {
			ids = append(ids, found[i].ID)
		}
		return err
	})
	return ids, false, err
}

// Again records that a dead letter was refused again when it was replayed through d's pipeline. The first refusal
// replaces the dead letter in its place. If another destination refuses it, too, that makes another dead letter. The
// change is durable on return.
func (s *Store) Again(ctx context.Context, d *spec.Declaration, id int64, l *engine.DeadLetter, first bool) error {
	l.Stopped = false
	one := newQueued(d, l, s.Clock.Now())
	one.refusal.Replay = true
	return s.change(ctx, func(tx *sql.Tx) error {
		var other int64
		err := tx.QueryRow(`SELECT id FROM dead_letters WHERE hash = ?`, one.hash).Scan(&other)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		switch {
		case !first:
			return s.insert(tx, one)
		case err == nil && other != id: // another dead letter has the same record and place
			if _, err := remove(tx, one.pipeline, `SELECT id FROM dead_letters WHERE pipeline_id = ? AND id = ?`,
				one.pipeline, id); err != nil {
				return err
			}
			return s.insert(tx, one)
		}
		return moved(tx, id, one)
	})
}

// moved replaces a dead letter by the record that was refused when the dead letter was replayed.
func moved(tx *sql.Tx, id int64, l *queued) error {
	var before int64
	switch err := tx.QueryRow(`SELECT bytes FROM dead_letters WHERE id = ?`, id).Scan(&before); {
	case errors.Is(err, sql.ErrNoRows): // it was dropped meanwhile
		return nil
	case err != nil:
		return err
	}
	if _, err := tx.Exec(`UPDATE dead_letters SET hash = ?, stage = ?, refused_by = ?, entry = ?, key = ?, bytes = ? `+
		`WHERE id = ?`,
		l.hash, string(l.stage), l.refusedBy, toJSON(l.entry), l.key, len(l.body), id); err != nil {
		return err
	}
	if _, err := tx.Exec(`UPDATE bodies SET record = ? WHERE id = ?`, l.body, id); err != nil {
		return err
	}
	if _, err := tx.Exec(`UPDATE totals SET bytes = bytes + ? WHERE pipeline_id = ?`, int64(len(l.body))-before,
		l.pipeline); err != nil {
		return err
	}
	return refuseAgain(tx, id, &l.refusal, l.digest, false)
}

// Settled removes dead letters of a pipeline that were settled in the version that was loaded. A dead letter that was
// edited since then stays.
func (s *Store) Settled(ctx context.Context, pipeline string, all []Replay) error {
	byEdits := map[int64][]int64{}
	for _, r := range all {
		byEdits[r.Edits] = append(byEdits[r.Edits], r.ID)
	}
	if len(byEdits) == 0 {
		return nil
	}
	err := s.change(ctx, func(tx *sql.Tx) error {
		for edits, ids := range byEdits {
			if _, err := remove(tx, pipeline, `SELECT id FROM dead_letters WHERE pipeline_id = ? AND edited = ? AND `+
				`id IN (`+list(ids)+`)`, pipeline, edits); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		s.Replayed.Add(uint64(len(all)))
	}
	return err
}
