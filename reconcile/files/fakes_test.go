package files_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/conduit-agent/conduit/reconcile/reconciletest"
	"github.com/conduit-agent/conduit/spec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pipeline returns a running pipeline with one source. Versions differ in its setting.
func pipeline(id, version string) spec.Pipeline {
	return spec.Pipeline{ID: id, Status: spec.StatusRunning, Connectors: []spec.Connector{
		{ID: "in", Type: spec.TypeSource, Plugin: "fake", Settings: map[string]string{"version": version}},
	}}
}

// digest stands in for spec.Digest.
func digest(p *spec.Pipeline) string {
	c := *p
	c.Name, c.Description = "", ""
	return fmt.Sprint(c)
}

// memory is a store that keeps the contract of files.Store and checks its use.
type memory struct {
	mu       sync.Mutex
	declared map[string]spec.Declaration
	files    map[string]spec.FileState
	events   []spec.Event
	applied  int
	changed  []string            // ids of changed or deleted declarations; each adds a revision
	reads    int                 // calls of DeclarationsSince
	onApply  func(*spec.Changes) // called with the changes to apply; may be nil
	fail     error               // of every call
}

func newMemory() *memory {
	return &memory{declared: map[string]spec.Declaration{}, files: map[string]spec.FileState{}}
}

func values[V any](m *memory, all map[string]V) ([]V, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return reconciletest.Values(all), m.fail
}

func (m *memory) DeclarationsSince(_ context.Context, revision int64) (spec.Delta[spec.Declaration], error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	return reconciletest.Delta(m.declared, m.changed, revision), m.fail
}

func (m *memory) FileStates(context.Context) ([]spec.FileState, error) { return values(m, m.files) }

func (m *memory) Apply(_ context.Context, c *spec.Changes) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.onApply != nil {
		m.onApply(c)
	}
	if m.fail != nil {
		return m.fail
	}
	m.applied++
	changed, err := reconciletest.Apply(m.declared, c, digest, time.Now())
	if m.changed = append(m.changed, changed...); err != nil {
		return err
	}
	for _, f := range c.Files {
		m.files[f.Path] = f
	}
	for _, path := range c.Forget {
		delete(m.files, path)
	}
	m.events = append(m.events, c.Events...)
	return nil
}

func (m *memory) declare(ps ...spec.Pipeline) { reconciletest.Declare(m, ps...) }

func (m *memory) withdraw(id string, purge bool) { reconciletest.Withdraw(m, id, purge) }

func (m *memory) set(fail error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = fail
}

var errBroken = errors.New("broken")

// DeletePipeline forgets a withdrawn pipeline.
func (m *memory) DeletePipeline(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.declared[id].Withdrawn.IsZero() {
		return fmt.Errorf("%q is declared", id)
	}
	delete(m.declared, id)
	m.changed = append(m.changed, id)
	return m.fail
}

func (m *memory) declaration(id string) (spec.Declaration, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, ok := m.declared[id]
	return d, ok
}

func (m *memory) update(id string, change func(*spec.Declaration)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.declared[id]
	change(&d)
	m.declared[id] = d
	m.changed = append(m.changed, id)
}
