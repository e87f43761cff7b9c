package schema

import (
	"context"
	"fmt"
	"sync"
)

// Memory is a Registry that keeps schemas for as long as it lives. The zero Memory is
// empty and ready; it may be used from several goroutines.
type Memory struct {
	mu       sync.Mutex
	subjects map[string][]Schema // by version - 1
	ids      map[string]int      // by text
}

// Create is Registry.Create. A text that Parse refuses is an ErrInvalidSchema.
func (m *Memory) Create(_ context.Context, subject string, typ Type, text string) (Schema, error) {
	if typ != TypeAvro {
		return Schema{}, fmt.Errorf("%w: type %d is not Avro", ErrInvalidSchema, typ)
	}
	if _, err := Parse(text); err != nil {
		return Schema{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.subjects[subject] {
		if s.Text == text {
			return s, nil
		}
	}
	if m.subjects == nil {
		m.subjects, m.ids = map[string][]Schema{}, map[string]int{}
	}
	if m.ids[text] == 0 {
		m.ids[text] = len(m.ids) + 1
	}
	s := Schema{Subject: subject, Version: len(m.subjects[subject]) + 1, ID: m.ids[text], Type: typ, Text: text}
	m.subjects[subject] = append(m.subjects[subject], s)
	return s, nil
}

// Get is Registry.Get.
func (m *Memory) Get(_ context.Context, subject string, version int) (Schema, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	versions := m.subjects[subject]
	switch {
	case versions == nil:
		return Schema{}, ErrSubjectNotFound
	case version < 1 || version > len(versions):
		return Schema{}, ErrVersionNotFound
	}
	return versions[version-1], nil
}

// ByID is IDRegistry.ByID.
func (m *Memory) ByID(_ context.Context, id int) (Schema, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for text, known := range m.ids {
		if known == id {
			return Schema{ID: id, Type: TypeAvro, Text: text}, nil
		}
	}
	return Schema{}, ErrSubjectNotFound
}
