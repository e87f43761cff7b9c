// Package schema infers Avro schemas from structured records, encodes and decodes
// records with them, and holds the rules of the schema registry.
package schema

import (
	"context"
	"errors"
)

// Type says in which language a schema is written. The numbers are those of the
// connector protocol (schema.v1.Schema.Type).
type Type int32

// TypeAvro is the only schema language there is.
const TypeAvro Type = 1

// Schema is one version of a subject.
type Schema struct {
	Subject string
	Version int // from 1, per subject
	ID      int // unique over all subjects; equal texts share it
	Type    Type
	Text    string // Avro schema in JSON
}

func (s Schema) size() int { return len(s.Text) }

// Registry keeps schemas.
type Registry interface {
	// Create stores text as the newest version of subject, or returns the version
	// that has this text already.
	Create(ctx context.Context, subject string, typ Type, text string) (Schema, error)
	// Get returns one version of a subject.
	Get(ctx context.Context, subject string, version int) (Schema, error)
}

// IDRegistry is a Registry that also finds schemas by their id.
type IDRegistry interface {
	Registry
	// ByID returns a schema with this id, without subject and version. It returns
	// ErrSubjectNotFound when there is none.
	ByID(ctx context.Context, id int) (Schema, error)
}

// What a Registry answers. The texts are part of the connector protocol: clients
// distinguish the errors by them.
var (
	ErrSubjectNotFound = errors.New("schema subject not found")
	ErrVersionNotFound = errors.New("schema version not found")
	ErrInvalidSchema   = errors.New("invalid schema")
)
