package schema

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
)

// maxSubject is the maximum length of a subject that a connector may create.
const maxSubject = 1024

// Bounds confines untrusted connectors to their own part of a registry: it limits the schemas that they create, and a
// subject that begins with the id of a connector belongs to this connector. The zero Bounds limits nothing.
type Bounds struct {
	Schemas int // schemas that a connector or processor may create while the agent runs; 0: no limit
	Bytes   int // total size of these schemas; 0: no limit
	// ReadAny lets connectors read the subjects of other pipelines.
	ReadAny bool
	// PipelineOf returns the pipeline of the connector with this id, or false if there is no such connector. If
	// PipelineOf is nil, subjects have no owner.
	PipelineOf func(ctx context.Context, connectorID string) (pipelineID string, ok bool)

	mu   sync.Mutex
	used map[string]*usage // guarded by mu: by connector id
}

// usage counts the schemas that a connector has created.
type usage struct {
	schemas map[[sha256.Size]byte]bool // by subject and text
	bytes   int
}

// Create creates a schema in r for a connector. Refused schemas and schemas that the connector created before do not
// count.
func (b *Bounds) Create(
	ctx context.Context, r Registry, connectorID, subject string, typ Type, text string,
) (Schema, error) {
	if len(subject) > maxSubject {
		return Schema{}, fmt.Errorf("cannot create a schema: the subject has %d bytes, more than the maximum of %d",
			len(subject),
			maxSubject)
	}
	if owner, _, ok := b.other(ctx, connectorID, subject); ok {
		return Schema{}, fmt.Errorf("cannot create a schema of subject %q: it belongs to connector %s; choose "+
			"another sdk.schema.context.name", subject, owner)
	}
	undo, err := b.reserve(connectorID, subject, text)
	if err != nil {
		return Schema{}, err
	}
	s, err := r.Create(ctx, subject, typ, text)
	if err != nil {
		undo()
	}
	return s, err
}

// Get gets a schema from r for a connector.
func (b *Bounds) Get(ctx context.Context, r Registry, connectorID, subject string, version int) (Schema, error) {
	if len(subject) > maxSubject {
		return Schema{}, ErrSubjectNotFound
	}
	if b.ReadAny {
		return r.Get(ctx, subject, version)
	}
	if owner, pipeline, ok := b.other(ctx, connectorID, subject); ok {
		if own, ok := b.PipelineOf(ctx, connectorID); !ok || own != pipeline {
			return Schema{}, fmt.Errorf("cannot read schema subject %q: it belongs to connector %s of another "+
				"pipeline; to allow access, set connectors.schema-access to any", subject, owner)
		}
	}
	return r.Get(ctx, subject, version)
}

// other returns the connector that owns a subject, and its pipeline. ok is false if the owner is this connector or
// there is none. If the subject begins with several connector ids, the longest one is the owner.
func (b *Bounds) other(ctx context.Context, connectorID, subject string) (owner, pipelineID string, ok bool) {
	if b.PipelineOf == nil {
		return "", "", false
	}
	for i := strings.LastIndexByte(subject, ':'); i > 0; i = strings.LastIndexByte(subject[:i], ':') {
		owner = subject[:i]
		if owner == connectorID {
			return "", "", false
		}
		if pipelineID, ok = b.PipelineOf(ctx, owner); ok {
			return owner, pipelineID, true
		}
	}
	return "", "", false
}

// reserve counts a schema unless the connector has created it before. undo reverts the count.
func (b *Bounds) reserve(connectorID, subject, text string) (undo func(), err error) {
	key := sha256.Sum256([]byte(subject + "\x00" + text))
	size := len(subject) + len(text)
	b.mu.Lock()
	defer b.mu.Unlock()
	u := b.used[connectorID]
	if u == nil {
		u = &usage{schemas: map[[sha256.Size]byte]bool{}}
	}
	switch {
	case u.schemas[key]:
		return func() {}, nil
	case b.Schemas > 0 && len(u.schemas) >= b.Schemas:
		return nil, fmt.Errorf("cannot create another schema: %s has created %d schemas, and "+
			"connectors.max-schemas allows no more", connectorID, len(u.schemas))
	case b.Bytes > 0 && u.bytes+size > b.Bytes:
		return nil, fmt.Errorf("cannot create a schema of %d bytes: %s has created %d bytes of schemas, and "+
			"connectors.max-schema-bytes is %d", size, connectorID, u.bytes, b.Bytes)
	}
	if b.used == nil {
		b.used = map[string]*usage{}
	}
	b.used[connectorID] = u
	u.schemas[key], u.bytes = true, u.bytes+size
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(u.schemas, key)
		u.bytes -= size
	}, nil
}
