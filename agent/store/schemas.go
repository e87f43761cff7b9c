package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"

	"github.com/conduit-agent/conduit/plugins/schema"
)

// Schemas is the schema registry in a store.
type Schemas struct{ db *DB }

// Schemas returns the schema registry.
func (db *DB) Schemas() *Schemas { return &Schemas{db} }

// Create stores text as the newest version of subject, or returns the version with this text. If another subject has
// the text, the id is the same. The caller must check that text is an Avro schema; Create only refuses an empty text.
func (r *Schemas) Create(ctx context.Context, subject string, typ schema.Type, text string) (schema.Schema, error) {
	s := schema.Schema{Subject: subject, Type: typ, Text: text}
	if typ != schema.TypeAvro || text == "" {
		return schema.Schema{}, schema.ErrInvalidSchema
	}
	hash := sha256.Sum256([]byte(text))
	find := func(query func(string, ...any) *sql.Row) error {
		return query(`SELECT v.version, s.id FROM schema_versions v JOIN schemas s ON s.id = v.schema_id
			WHERE s.hash = ? AND s.type = ? AND v.subject = ?`, hash[:], typ, subject).Scan(&s.Version, &s.ID)
	}
	err := r.db.use(func(p *pools) error {
		return find(p.reader.QueryRow) // does not watch ctx, which would cost more than the query
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = r.db.write(ctx, func(tx *sql.Tx) error {
			if err := find(tx.QueryRow); !errors.Is(err, sql.ErrNoRows) {
				return err
			}
			return insertSchema(tx, &s, hash[:])
		}, nil)
	}
	if err != nil {
		return schema.Schema{}, wrap(err, "cannot store a schema of subject %q", subject)
	}
	return s, nil
}

// insertSchema adds a version to s.Subject and sets its version and id.
func insertSchema(tx *sql.Tx, s *schema.Schema, hash []byte) error {
	if _, err := exec(tx, `INSERT INTO schemas (type, hash, text) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, s.Type,
		hash, s.Text); err != nil {
		return err
	}
	if err := tx.QueryRow(`SELECT id FROM schemas WHERE hash = ? AND type = ?`, hash, s.Type).Scan(&s.ID); err != nil {
		return err
	}
	return tx.QueryRow(`INSERT INTO schema_versions (subject, version, schema_id)
		SELECT ?1, coalesce(max(version), 0) + 1, ?2 FROM schema_versions WHERE subject = ?1 RETURNING version`,
		s.Subject, s.ID).Scan(&s.Version)
}

// Get returns one version of a subject, or schema.ErrSubjectNotFound or schema.ErrVersionNotFound.
func (r *Schemas) Get(ctx context.Context, subject string, version int) (schema.Schema, error) {
	s := schema.Schema{Subject: subject, Version: version}
	known := false
	err := r.db.use(func(p *pools) error {
		err := p.reader.QueryRowContext(ctx, `SELECT s.id, s.type, s.text FROM schema_versions v
			JOIN schemas s ON s.id = v.schema_id
			WHERE v.subject = ? AND v.version = ?`, subject, version).Scan(&s.ID, &s.Type, &s.Text)
		if errors.Is(err, sql.ErrNoRows) {
			return errors.Join(err, p.reader.QueryRowContext(ctx,
				`SELECT count(*) > 0 FROM schema_versions WHERE subject = ?`, subject).Scan(&known))
		}
		return err
	})
	switch {
	case err == nil:
		return s, nil
	case !errors.Is(err, sql.ErrNoRows):
		return schema.Schema{}, wrap(err, "cannot read version %d of schema subject %q", version, subject)
	case known:
		return schema.Schema{}, schema.ErrVersionNotFound
	}
	return schema.Schema{}, schema.ErrSubjectNotFound
}

// ByID returns the schema with this id, or schema.ErrSubjectNotFound.
func (r *Schemas) ByID(ctx context.Context, id int) (schema.Schema, error) {
	s := schema.Schema{ID: id}
	err := r.db.use(func(p *pools) error {
		return p.reader.QueryRowContext(ctx, `SELECT type, text FROM schemas WHERE id = ?`, id).Scan(&s.Type, &s.Text)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return schema.Schema{}, schema.ErrSubjectNotFound
	}
	return s, wrap(err, "cannot read schema %d", id)
}
