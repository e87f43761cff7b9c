package store

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
)

// docs is a table of JSON documents by id, held in memory too.
type docs[T any] struct {
	table string
	cache[T]
}

func newDocs[T any](table string, key func(*T) string) docs[T] {
	return docs[T]{table: table, cache: cache[T]{key: key}}
}

func (d *docs[T]) load(ctx context.Context, q querier) error {
	scan := func(s scanner) (v T, err error) {
		var id, text string
		if err := s.Scan(&id, &text); err != nil {
			return v, err
		}
		return decode[T](d.table, id, text)
	}
	rows, err := queryAll(ctx, q, scan, `SELECT id, doc FROM `+d.table)
	if err != nil {
		return err
	}
	d.reset(rows)
	return nil
}

// prepare returns what writes v, and what puts it into memory after the commit. What
// is held in memory is read back from the text: it shares nothing with v.
func (d *docs[T]) prepare(v *T) (do func(*sql.Tx) error, committed func(), err error) {
	id := d.key(v)
	text, err := encode(v)
	if err != nil {
		return nil, nil, err
	}
	kept, err := decode[T](d.table, id, text)
	if err != nil {
		return nil, nil, err
	}
	do = func(tx *sql.Tx) error {
		_, err := exec(tx, `INSERT INTO `+d.table+` (id, doc) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET doc = excluded.doc`, id, text)
		return err
	}
	return do, func() { d.put(kept) }, nil
}

func (d *docs[T]) remove(tx *sql.Tx, id string) error {
	_, err := exec(tx, `DELETE FROM `+d.table+` WHERE id = ?`, id)
	return err
}

// encode returns v as canonical JSON: map keys sorted, nothing escaped needlessly.
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
		return v, fmt.Errorf("cannot decode %q of table %s: %w", id, table, err)
	}
	return v, nil
}

// exec performs a statement of a transaction and returns how many rows it changed. The
// statement takes no context: a transaction is performed to its end.
func exec(tx *sql.Tx, query string, args ...any) (int64, error) {
	res, err := tx.ExecContext(context.Background(), query, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}
