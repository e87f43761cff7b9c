package clustertest

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/conduit-agent/conduit/agent/cluster/protocol"
)

// Memory is an in-memory store of a cluster in which no key expires and every write is answered. The zero value is
// empty.
type Memory struct {
	mu       sync.Mutex
	revision uint64
	keys     map[string]protocol.Entry
	written  []protocol.Entry
	watches  []func(protocol.Entry)
	read     func()
}

// Write implements cluster.Store. It notifies the followers before it returns.
func (m *Memory) Write(_ context.Context, w protocol.Write) protocol.Outcome {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := m.keys[w.Key].Revision; now != w.Revision {
		return protocol.Outcome{Result: protocol.Conflict, Revision: now}
	}
	if m.keys == nil {
		m.keys = map[string]protocol.Entry{}
	}
	m.revision++
	e := w.Entry
	e.Revision = m.revision
	m.keys[w.Key] = e
	m.written = append(m.written, e)
	e.State = nil
	for _, f := range m.watches {
		f(e)
	}
	return protocol.Outcome{Result: protocol.Applied, Revision: m.revision}
}

// Read implements cluster.Store.
func (m *Memory) Read(_ context.Context, key string) (protocol.Entry, error) {
	m.mu.Lock()
	before := m.read
	m.read = nil
	m.mu.Unlock()
	if before != nil {
		before()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.keys[key]
	e.Key = key
	return e, nil
}

// Watch implements cluster.Store.
func (m *Memory) Watch(ctx context.Context, observe func(protocol.Entry), synced func()) error {
	m.Follow(observe)
	synced()
	<-ctx.Done()
	return ctx.Err()
}

// Follow calls f with every entry, and from then on with every write, without states.
func (m *Memory) Follow(f func(protocol.Entry)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.keys {
		e.State = nil
		f(e)
	}
	m.watches = append(m.watches, f)
}

// BeforeRead makes the next read call f first.
func (m *Memory) BeforeRead(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.read = f
}

// All returns all entries by key.
func (m *Memory) All() map[string]protocol.Entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.keys)
}

// Written returns all writes, in order.
func (m *Memory) Written() []protocol.Entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.written)
}

// Expire removes a key without notifying followers.
func (m *Memory) Expire(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.keys, key)
}

// Restore sets a key to an entry of a backup, with the entry's revision, without notifying followers.
func (m *Memory) Restore(key string, e protocol.Entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keys[key] = e
}
