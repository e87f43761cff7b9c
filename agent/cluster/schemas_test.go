package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/plugins/schema"
)

// shared is the store of a cluster. It applies every other write without an answer.
type shared struct {
	mu   sync.Mutex
	keys map[string]protocol.Entry // guarded by mu
	n    uint64                    // guarded by mu
	away bool                      // guarded by mu
}

func (s *shared) Write(_ context.Context, w protocol.Write) protocol.Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	switch {
	case s.away:
		return protocol.Outcome{Result: protocol.Unknown}
	case s.keys[w.Key].Revision != w.Revision:
		return protocol.Outcome{Result: protocol.Conflict}
	}
	w.Entry.Revision = s.n
	s.keys[w.Key] = w.Entry
	if s.n%2 == 0 {
		return protocol.Outcome{Result: protocol.Unknown}
	}
	return protocol.Outcome{Result: protocol.Applied, Revision: s.n}
}

func (s *shared) Read(_ context.Context, key string) (protocol.Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return protocol.Entry{}, errors.New("away")
	}
	return s.keys[key], nil
}

func (s *shared) Watch(context.Context, func(protocol.Entry), func()) error { return nil }

func text(n int) string { return fmt.Sprintf(`{"type":"fixed","name":"f","size":%d}`, n) }

// member returns the registry of a new member, and its own store.
func member(t *testing.T, s *shared) (*cluster.SchemaRegistry, *store.Schemas) {
	t.Helper()
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "conduit.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	isShared := func(subject string) bool { return !strings.HasPrefix(subject, "local:") }
	return &cluster.SchemaRegistry{Local: db.Schemas(), Cluster: "test", Store: s, Shared: isShared}, db.Schemas()
}

func create(t *testing.T, r schema.Registry, subject string, n int) schema.Schema {
	t.Helper()
	s, err := r.Create(t.Context(), subject, schema.TypeAvro, text(n))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestMembersShareSchemas creates the same schemas on two members in different orders at the same time. Each member
// reads the schemas of the other.
func TestMembersShareSchemas(t *testing.T) {
	store := &shared{keys: map[string]protocol.Entry{}}
	a, _ := member(t, store)
	b, _ := member(t, store)
	const count = 8
	got := [2][count]schema.Schema{}
	var creating sync.WaitGroup
	for i, r := range []schema.Registry{a, b} {
		creating.Go(func() {
			for n := range count {
				n = (n + i*count/2) % count
				got[i][n], _ = r.Create(t.Context(), "p:in:payload", schema.TypeAvro, text(n))
			}
		})
	}
	creating.Wait()
	versions := map[int]bool{}
	for n := range count {
		s := got[0][n]
		if s != got[1][n] || s.Text != text(n) || s.Version < 1 || s.Version > count || versions[s.Version] {
			t.Errorf("schema %d is %+v on one member and %+v on the other", n, s, got[1][n])
		}
		versions[s.Version] = true
	}
	c, _ := member(t, store) // a member that created no schema
	for _, s := range got[0] {
		if is, err := c.Get(t.Context(), s.Subject, s.Version); err != nil || is != s {
			t.Errorf("a third member reads %+v, %v, want %+v", is, err, s)
		}
		if is, err := c.ByID(t.Context(), s.ID); err != nil || is.Text != s.Text {
			t.Errorf("a third member reads %+v, %v by id, want %+v", is, err, s)
		}
	}
	if _, err := c.Get(t.Context(), "p:in:payload", count+1); !errors.Is(err, schema.ErrSubjectNotFound) {
		t.Errorf("a version that there is not: %v", err)
	}
	if other := create(t, c, "p:in:key", 3); other.ID != got[0][3].ID || other.Version != 1 {
		t.Errorf("the same text of another subject is %+v, want id %d", other, got[0][3].ID)
	}
}

// TestSchemasFromBefore checks that versions and ids keep their meaning when their agent joins a cluster.
func TestSchemasFromBefore(t *testing.T) {
	store := &shared{keys: map[string]protocol.Entry{}}
	a, own := member(t, store)
	first, second := create(t, own, "p:in:payload", 1), create(t, own, "p:in:payload", 2)
	if s := create(t, a, "p:in:payload", 3); s.Version != 3 {
		t.Errorf("the first schema of the cluster is %+v, want version 3", s)
	}
	b, _ := member(t, store)
	if s := create(t, b, "p:in:payload", 2); s.Version != second.Version {
		t.Errorf("another member has %+v, want version %d", s, second.Version)
	}
	if s, err := a.ByID(t.Context(), first.ID); err != nil || s.Text != text(1) {
		t.Errorf("the id from before means %+v, %v", s, err)
	}
}

// TestSchemasWithoutStore checks that, without the store, a member has every schema that it saw and all schemas of
// local pipelines.
func TestSchemasWithoutStore(t *testing.T) {
	store := &shared{keys: map[string]protocol.Entry{}}
	a, _ := member(t, store)
	s := create(t, a, "p:in:payload", 1)
	if _, err := a.ByID(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	store.away = true
	if again := create(t, a, "p:in:payload", 1); again != s {
		t.Errorf("created again it is %+v, want %+v", again, s)
	}
	if is, err := a.Get(t.Context(), s.Subject, s.Version); err != nil || is != s {
		t.Errorf("read again it is %+v, %v, want %+v", is, err, s)
	}
	if is, err := a.ByID(t.Context(), s.ID); err != nil || is.Text != s.Text {
		t.Errorf("read again by id it is %+v, %v", is, err)
	}
	if is := create(t, a, "local:in:payload", 1); is.Version != 1 || is.ID >= 1<<30 {
		t.Errorf("a schema of a local pipeline is %+v", is)
	}
	synctest.Test(t, func(t *testing.T) {
		unknown := &cluster.SchemaRegistry{Local: &schema.Memory{}, Store: store, Shared: func(string) bool {
			return true
		}}
		if is, err := unknown.Create(t.Context(), "p:in:payload", schema.TypeAvro, text(2)); err == nil ||
			!strings.Contains(err.Error(), "unreachable") {
			t.Errorf("a new schema is %+v, %v", is, err)
		}
	})
}
