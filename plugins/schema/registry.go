package schema

import (
	"context"
	"fmt"
	"sync"
)

// Memory is a Registry that keeps schemas in memory. The zero Memory is empty and ready to use. It is safe for
// concurrent use.
type Memory struct {
	mu       sync.Mutex
	subjects map[string][]Schema // by version - 1
	ids      map[string]int      // by text
}

// Create implements Registry. It returns an ErrInvalidSchema for a text that Parse refuses.
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

// Get implements Registry.
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

// ByID implements IDRegistry.
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
