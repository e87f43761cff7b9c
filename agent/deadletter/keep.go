package deadletter

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// Limits of the texts in lists, and of the refusals of a record.
const (
	maxKey      = 256
	maxError    = 1 << 10
	maxFullText = 64 << 10
	maxRefusals = 10
)

// maxQueued is the number of bytes that may be pending; Keep blocks beyond that.
const maxQueued = 8 << 20

// queued is a dead letter to be written.
type queued struct {
	pipeline, source, refusedBy string
	stage                       spec.DeadLetterStage
	entry                       Entry
	hash, body                  []byte
	refusal                     spec.Refusal
	digest, key                 string
	stopped                     bool
}

// Keep takes over a record that the pipeline of d refused. The record is on disk when Flush returns nil, or Before for
// its pipeline.
func (s *Store) Keep(ctx context.Context, d *spec.Declaration, l *engine.DeadLetter) error {
	one := newQueued(d, l, s.Clock.Now())
	s.init()
	if !s.queue.add(one) {
		return s.Flush(ctx)
	}
	s.wake.Notify()
	return nil
}

func newQueued(d *spec.Declaration, l *engine.DeadLetter, at time.Time) *queued {
	body := encodeBoth(&l.Record, l.Original)
	p := &d.Pipeline
	one := &queued{
		pipeline: p.ID, source: l.SourceID, refusedBy: l.RefusedBy, stage: stageOf(p, l.RefusedBy),
		entry: entryOf(p, l.Entry),
		body:  body, digest: d.Digest, key: keyText(l.Record.Key), stopped: l.Stopped,
		refusal: spec.Refusal{Time: at, By: l.RefusedBy, Generation: d.Generation,
			Error: cut(l.Err.Error(), maxFullText)},
	}
	one.hash = one.identity(l.Record)
	return one
}

// encode returns the JSON form of a record. Values without a JSON form are kept as text.
func encode(r record.Record) []byte {
	size := r.Size()
	buffer := make([]byte, 0, size+size/2) // growing the buffer would take several times as much
	if body, err := record.AppendJSON(buffer, &r); err == nil {
		return body
	}
	r = r.Encodable()
	body, _ := record.AppendJSON(nil, &r) // every record has a JSON form
	return body
}

// identity returns a hash that is the same when a source delivers a record again and the same place refuses it again.
// It ignores metadata, which may differ, such as the time of reading.
func (l *queued) identity(r record.Record) []byte {
	r.Metadata = nil
	h := sha256.New()
	for _, part := range [][]byte{[]byte(l.pipeline), []byte(l.source), []byte(l.refusedBy), encode(r)} {
		fmt.Fprintf(h, "%d:", len(part))
		_, _ = h.Write(part) // a hash never fails
	}
	return h.Sum(nil)[:16]
}

// keyText returns a key as text.
func keyText(key record.Data) string {
	if b, ok := key.Raw(); ok {
		return cut(strings.ToValidUTF8(string(b), "\uFFFD"), maxKey)
	}
	text, err := key.AppendJSON(nil)
	if err != nil || string(text) == "null" {
		return ""
	}
	return cut(string(text), maxKey)
}

// cut returns the beginning of text, at most most bytes of whole characters.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	text = text[:most]
	for !utf8.ValidString(text) && len(text) > most-utf8.UTFMax {
		text = text[:len(text)-1]
	}
	return text + "…"
}

// Before makes the dead letters durable of the pipelines whose checkpoints are about to be saved. An error does not
// block other pipelines.
func (s *Store) Before(ctx context.Context, checkpoints []spec.Checkpoint) error {
	if !s.queue.concerns(checkpoints) {
		return nil
	}
	return s.Flush(ctx)
}

// Flush makes the pending dead letters durable. After an error, the next call writes them.
func (s *Store) Flush(ctx context.Context) error {
	if len(s.queue.all()) == 0 {
		return nil
	}
	written := 0
	err := s.use(ctx, func(db *sql.DB) (err error) {
		all := s.queue.all()
		if err := s.bounded(ctx, db, func(tx *sql.Tx) error {
			for _, l := range all {
				if err := s.insert(tx, l); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
		written = len(all)
		s.queue.forget(written)
		return nil
	})
	if err != nil || written == 0 {
		return err
	}
	s.Kept.Add(uint64(written))
	s.changed()
	return nil
}

// insert inserts a dead letter. If it exists already, insert adds a refusal.
func (s *Store) insert(tx *sql.Tx, l *queued) error {
	var id int64
	switch err := tx.QueryRow(`SELECT id FROM dead_letters WHERE hash = ?`, l.hash).Scan(&id); {
	case err == nil:
		return refuseAgain(tx, id, &l.refusal, l.digest, l.stopped)
	case !errors.Is(err, sql.ErrNoRows):
		return err
	}
	s.last = max(nanos(l.refusal.Time), s.last+1)
	l.refusal.Time = fromNanos(s.last)
	entry, refusals := toJSON(l.entry), toJSON([]spec.Refusal{l.refusal})
	result, err := tx.Exec(`INSERT INTO dead_letters (pipeline_id, hash, at, last_at, times, source_id, stage,
			refused_by, entry, generation, digest, key, error, stopped, bytes)
		VALUES (?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, l.pipeline, l.hash, s.last, s.last, l.source,
		string(l.stage), l.refusedBy, entry, l.refusal.Generation, l.digest, l.key, cut(l.refusal.Error, maxError),
		l.stopped, len(l.body))
	if err != nil {
		return err
	}
	if id, err = result.LastInsertId(); err != nil {
		return err
	}
	if _, err := tx.Exec(`INSERT INTO bodies (id, record, refusals) VALUES (?, ?, ?)`, id, l.body,
		refusals); err != nil {
		return err
	}
	_, err = tx.Exec(`INSERT INTO totals (pipeline_id, count, bytes, kept) VALUES (?1, 1, ?2, 1)
		ON CONFLICT (pipeline_id) DO UPDATE SET count = count + 1, bytes = bytes + ?2, kept = kept + 1`,
		l.pipeline, len(l.body))
	return err
}

// refuseAgain adds a refusal to a dead letter.
func refuseAgain(tx *sql.Tx, id int64, r *spec.Refusal, digest string, stopped bool) error {
	var text string
	if err := tx.QueryRow(`SELECT refusals FROM bodies WHERE id = ?`, id).Scan(&text); err != nil {
		return err
	}
	var refusals []spec.Refusal
	if err := json.Unmarshal([]byte(text), &refusals); err != nil {
		return err
	}
	if _, err := tx.Exec(`UPDATE bodies SET refusals = ? WHERE id = ?`, toJSON(keepRefusals(refusals, *r)),
		id); err != nil {
		return err
	}
	_, err := tx.Exec(`UPDATE dead_letters SET last_at = ?, times = times + 1, generation = ?, digest = ?, error = ?, `+
		`stopped = ? WHERE id = ?`,
		nanos(r.Time), r.Generation, digest, cut(r.Error, maxError), stopped, id)
	return err
}

// toJSON returns v as JSON. v must have a JSON form.
func toJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}
