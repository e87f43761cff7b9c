// Package schema infers Avro schemas from structured records, encodes and decodes records with them, and defines the
// rules of the schema registry.
package schema

import (
	"context"
	"errors"
)

// Type is the language of a schema. The numbers are those in the connector protocol (schema.v1.Schema.Type).
type Type int32

// TypeAvro is the only supported schema language.
const TypeAvro Type = 1

// Schema is one version of a subject.
type Schema struct {
	Subject string
	Version int // starts at 1 in each subject
	ID      int // unique across all subjects, except that equal texts share it
	Type    Type
	Text    string // Avro schema in JSON
}

func (s Schema) size() int { return len(s.Text) }

// Registry stores schemas.
type Registry interface {
	// Create stores text as the newest version of subject, or returns the existing version with this text.
	Create(ctx context.Context, subject string, typ Type, text string) (Schema, error)
	// Get returns one version of a subject.
	Get(ctx context.Context, subject string, version int) (Schema, error)
}

// IDRegistry is a Registry that also finds schemas by their id.
type IDRegistry interface {
	Registry
	// ByID returns the schema with this id, without subject and version. It returns ErrSubjectNotFound if there is
	// none.
	ByID(ctx context.Context, id int) (Schema, error)
}

// Errors of a Registry. The texts are part of the connector protocol: clients distinguish the errors by text.
var (
	ErrSubjectNotFound = errors.New("schema subject not found")
	ErrVersionNotFound = errors.New("schema version not found")
	ErrInvalidSchema   = errors.New("invalid schema")
)
