package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/conduit-agent/conduit/spec"
)

// Limits of the number, the bytes and the age of the stored answers.
var (
	keepAnswers      = 10_000
	keepAnswersBytes = 32 << 20
)

const keepAnswersFor = 24 * time.Hour

// answers stores the answers to requests with an Idempotency-Key.
type answers struct{ *sqlite }

// Answer returns the answer for the key, or nil if there is none or it is too old.
func (s answers) Answer(ctx context.Context, key string) (*spec.Answer, error) {
	var all []spec.Answer
	err := s.use(func(p *pools) (err error) {
		all, err = queryAll(ctx, p.reader, scanAnswer,
			`SELECT request, status, header, body FROM answers WHERE key = ? AND at > ?`, key,
			nanos(s.now().Add(-keepAnswersFor)))
		return err
	})
	if err != nil || len(all) == 0 {
		return nil, wrap(err, "cannot read answers")
	}
	return &all[0], nil
}

func scanAnswer(s scanner) (a spec.Answer, err error) {
	var header string
	if err := s.Scan(&a.Request, &a.Status, &header, &a.Body); err != nil {
		return a, err
	}
	a.Header, err = decode[map[string][]string]("answers", "header", header)
	return a, err
}

// KeepAnswer stores an answer for the key. It deletes answers that are too old, and the oldest ones beyond the limits
// of number and size.
func (s answers) KeepAnswer(ctx context.Context, key string, a *spec.Answer) error {
	header, err := encode(&a.Header)
	if err != nil {
		return wrap(err, "cannot store an answer")
	}
	err = s.write(ctx, func(tx *sql.Tx) error {
		now := s.now()
		if _, err := exec(tx,
			`INSERT OR REPLACE INTO answers (key, request, at, status, header, body) VALUES (?, ?, ?, ?, ?, ?)`,
			key, a.Request, nanos(now), a.Status, header, append([]byte{}, a.Body...)); err != nil {
			return err
		}
		_, err := exec(tx, `DELETE FROM answers WHERE at <= ? OR id <= (SELECT max(id) FROM answers) - ?`,
			nanos(now.Add(-keepAnswersFor)), keepAnswers)
		if err != nil {
			return err
		}
		_, err = exec(tx, `DELETE FROM answers WHERE id <= (SELECT max(id) FROM
			(SELECT id, sum(length(body) + length(header)) OVER (ORDER BY id DESC) AS size FROM answers)
			WHERE size > ?)`, keepAnswersBytes)
		return err
	}, nil)
	return wrap(err, "cannot store an answer")
}
