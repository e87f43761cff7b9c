package store

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
)

// table is a table of JSON documents by id.
type table[T any] string

// read returns every document, by id.
func (t table[T]) read(ctx context.Context, q querier) ([]T, error) {
	scan := func(s scanner) (v T, err error) {
		var id, text string
		if err := s.Scan(&id, &text); err != nil {
			return v, err
		}
		return decode[T](string(t), id, text)
	}
	return queryAll(ctx, q, scan, `SELECT id, doc FROM `+string(t)+` ORDER BY id`)
}

func (t table[T]) replace(tx *sql.Tx, id, text string) error {
	_, err := exec(tx, `INSERT INTO `+string(t)+
		` (id, doc) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET doc = excluded.doc`, id, text)
	return err
}

func (t table[T]) remove(tx *sql.Tx, id string) error {
	_, err := exec(tx, `DELETE FROM `+string(t)+` WHERE id = ?`, id)
	return err
}

// docs is a table of documents that is also held in memory.
type docs[T any] struct {
	table[T]
	Cache[T]
}

func newDocs[T any](name string, key func(*T) string) docs[T] {
	return docs[T]{table: table[T](name), Cache: Cache[T]{Key: key}}
}

func (d *docs[T]) load(ctx context.Context, q querier) error {
	rows, err := d.read(ctx, q)
	if err == nil {
		d.Reset(rows)
	}
	return err
}

// prepare returns a function that writes v, and one that puts it into memory after the commit. The caller must not
// change the data that v points to afterwards, because the store keeps it.
func (d *docs[T]) prepare(v *T) (do func(*sql.Tx) error, committed func(), err error) {
	kept := *v
	if b, ok := any(&kept).(interface{ Bound() }); ok {
		b.Bound()
	}
	id := d.Key(&kept)
	text, err := encode(&kept)
	if err != nil {
		return nil, nil, err
	}
	return func(tx *sql.Tx) error { return d.replace(tx, id, text) }, func() { d.Put(kept) }, nil
}

// encode returns v as canonical JSON: sorted map keys, and no unnecessary escapes.
func encode(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", err
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}

func decode[T any](table, id, text string) (v T, err error) {
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return v, &RowError{table, id, err}
	}
	if b, ok := any(&v).(interface{ Bound() }); ok { // earlier versions stored errors of any length
		b.Bound()
	}
	return v, nil
}

// exec performs a statement of a transaction and returns the number of changed rows. It takes no context, because a
// transaction is not interrupted.
func exec(tx *sql.Tx, query string, args ...any) (int64, error) {
	res, err := tx.ExecContext(context.Background(), query, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}
