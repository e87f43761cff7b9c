package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/conduit-agent/conduit/agent/agenttest/clustertest"
	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/spec"
)

// declaredHost is a member of a cluster with the declarations in its store.
type declaredHost struct {
	*testing.T
	db    *store.DB
	share *cluster.Declarations
}

func newDeclaredHost(t *testing.T, name string, m *clustertest.Memory) *declaredHost {
	t.Helper()
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "conduit.db"))
	if err != nil {
		t.Fatal(err)
	}
	h := &declaredHost{t, db, &cluster.Declarations{
		Member: &cluster.Member{Store: m, Self: protocol.Session{Agent: name}}, Store: db,
		Log: slog.New(slog.DiscardHandler), Changed: func() {},
	}}
	t.Cleanup(func() { _ = db.Close() })
	return h
}

// run lets the member take over the declarations of others.
func (h *declaredHost) run(m *clustertest.Memory) *declaredHost {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); h.share.Run(ctx) }()
	h.Cleanup(func() { cancel(); <-ended })
	m.Follow(func(e protocol.Entry) { h.share.Note(e) })
	return h
}

func pipeline(name string, plugins ...string) spec.Pipeline {
	p := spec.Pipeline{ID: "p", Status: spec.StatusStopped, Name: name}
	for _, plugin := range plugins {
		p.Connectors = append(p.Connectors, spec.Connector{ID: plugin, Type: spec.TypeDestination, Plugin: plugin,
			Name: plugin})
	}
	spec.Normalize(&p)
	return p
}

var (
	api  = spec.Owner{Kind: spec.OwnerAPI}
	file = spec.Owner{Kind: spec.OwnerFile, Path: "p.yaml", Line: 1}
)

func (h *declaredHost) declare(p spec.Pipeline, owner spec.Owner, version string) error {
	return h.share.ApplyIf(h.Context(), &spec.Changes{Declare: []spec.Declare{{Pipeline: p, Owner: owner,
		Origin: "api"}}}, map[string]string{"p": version})
}

// local declares in the store of the member only, as its files do.
func (h *declaredHost) local(p spec.Pipeline, owner spec.Owner) {
	h.Helper()
	if err := h.db.Apply(h.Context(), &spec.Changes{Declare: []spec.Declare{{Pipeline: p, Owner: owner}}}); err != nil {
		h.Fatal(err)
	}
}

// get returns the declaration of the member, or an empty one.
func (h *declaredHost) get() spec.Declaration {
	d, err := h.db.Get(h.Context(), "p")
	if err != nil && !errors.Is(err, spec.ErrNotFound) {
		h.Fatal(err)
	}
	return d
}

// await waits until a member has a pipeline of this name that is declared for the cluster.
func (h *declaredHost) await(name string) {
	h.Helper()
	wait.For(h, "the pipeline "+name, func() bool {
		d := h.get()
		return d.Pipeline.Name == name && cluster.IsShared(&d) && d.Withdrawn.IsZero()
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestOfTwoChangesOneWins declares and changes a pipeline on two members. The member that does not know the other's
// declaration gets a conflict, and has that declaration afterwards.
func TestOfTwoChangesOneWins(t *testing.T) { synctest.Test(t, testOfTwoChangesOneWins) }

func testOfTwoChangesOneWins(t *testing.T) {
	m := &clustertest.Memory{}
	a, b := newDeclaredHost(t, "a", m), newDeclaredHost(t, "b", m)
	must(t, a.declare(pipeline("1"), api, ""))
	a.await("1")
	for _, next := range []string{"2", "3"} {
		was := b.get()
		version := ""
		if was.Pipeline.ID != "" {
			version = was.Version()
		}
		if err := b.declare(pipeline("by b"), api, version); !errors.Is(err, spec.ErrConflict) {
			t.Fatalf("a change of another version: %v", err)
		}
		if d, got := a.get(), b.get(); !cluster.IsShared(&got) || got.Pipeline.Name != d.Pipeline.Name {
			t.Errorf("afterwards b has %+v", got)
		}
		d := a.get()
		must(t, a.declare(pipeline(next), api, d.Version()))
	}
	d := a.get()
	if err := a.declare(pipeline("4"), api, "another version"); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("a change of another version than is declared here: %v", err)
	}
	must(t, a.share.ApplyIf(t.Context(),
		&spec.Changes{Withdraw: []spec.Withdraw{{ID: "p", Origin: "api", Purge: true}}},
		map[string]string{"p": d.Version()}))
	was := b.get()
	if err := b.declare(pipeline("by b"), api, was.Version()); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("a change of a pipeline that was deleted: %v", err)
	}
	if d := b.get(); d.Withdrawn.IsZero() || !d.Purge {
		t.Errorf("b has what was deleted: %+v", d)
	}
}

// TestOvertakenChange lets another member be faster during a change, and notes the other's declaration in between. The
// change is refused because its base version is out of date.
func TestOvertakenChange(t *testing.T) { synctest.Test(t, testOvertakenChange) }

func testOvertakenChange(t *testing.T) {
	m := &clustertest.Memory{}
	a, b := newDeclaredHost(t, "a", m), newDeclaredHost(t, "b", m).run(m)
	must(t, a.declare(pipeline("1"), api, ""))
	b.await("1")
	was := b.get()
	m.BeforeRead(func() {
		d := a.get()
		must(t, a.declare(pipeline("by a"), api, d.Version()))
		b.await("by a")
	})
	if err := b.declare(pipeline("by b"), api, was.Version()); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("a change of the version before: %v", err)
	}
	if d := b.get(); d.Pipeline.Name != "by a" {
		t.Errorf("b has %+v", d.Pipeline)
	}
}

// TestTakenIDs checks an id that is used in a file of a member. A declaration is refused while a claim exists;
// otherwise that member keeps its own pipeline until the file is gone.
func TestTakenIDs(t *testing.T) { synctest.Test(t, testTakenIDs) }

func testTakenIDs(t *testing.T) {
	m := &clustertest.Memory{}
	a, b := newDeclaredHost(t, "a", m).run(m), newDeclaredHost(t, "b", m).run(m)
	b.local(pipeline("of the file"), file)
	claim := protocol.Unowned("p")
	claim.Owner = "b"
	put := func() {
		value, err := json.Marshal(claim)
		must(t, err)
		m.Write(t.Context(), protocol.Write{Entry: protocol.Entry{Key: protocol.ClaimKey("p"), Value: value,
			Revision: m.All()[protocol.ClaimKey("p")].Revision}})
	}
	for _, one := range []struct {
		change func()
		code   string
	}{
		{func() {}, spec.CodePipelineExists},
		{func() { claim.Owner, claim.Withdrawn = "", "b" }, spec.CodePipelineDeleting},
		{func() { claim.Deleted = true }, ""},
	} {
		one.change()
		put()
		refused := new(spec.Error)
		if err := a.declare(pipeline("1"), api, ""); (err == nil) != (one.code == "") || err != nil &&
			(!errors.As(err, &refused) || refused.Code != one.code) {
			t.Errorf("with the claim %+v: %v, want %q", claim, err, one.code)
		}
	}
	wait.For(t, "b to know that its id is taken", func() bool { return b.share.Taken("p") })
	if d := b.get(); d.Owner.Kind != spec.OwnerFile || d.Pipeline.Name != "of the file" || a.share.Taken("p") {
		t.Errorf("b has %+v", d)
	}
	var events []spec.Event
	wait.For(t, "an event of b", func() (found bool) {
		var err error
		events, err = b.db.Events(t.Context(), 0, 10)
		must(t, err)
		return len(events) > 0
	})
	if len(events) != 1 || events[0].Reason != "IDTaken" || events[0].File != "p.yaml" {
		t.Errorf("events of b: %+v", events)
	}
	must(t, b.db.Apply(t.Context(), &spec.Changes{Withdraw: []spec.Withdraw{{ID: "p"}}}))
	b.share.Recheck()
	b.await("1")
	if b.share.Taken("p") {
		t.Error("the id is taken still")
	}
}

// TestAdoption moves a pipeline from the files of two members to the API, and back.
func TestAdoption(t *testing.T) { synctest.Test(t, testAdoption) }

func testAdoption(t *testing.T) {
	m := &clustertest.Memory{}
	a, b := newDeclaredHost(t, "a", m).run(m), newDeclaredHost(t, "b", m).run(m)
	a.local(pipeline("1"), file)
	b.local(pipeline("1"), file)
	d := a.get()
	must(t, a.declare(pipeline("1"), api, d.Version()))
	b.await("1")
	d = a.get()
	must(t, a.declare(pipeline("2"), api, d.Version()))
	late := newDeclaredHost(t, "late", m)
	late.local(pipeline("1"), file)
	late.run(m).await("2") // it saw only the second declaration
	d = a.get()
	must(t, a.declare(pipeline("2"), file, d.Version()))
	wait.For(t, "b to leave it to its files", func() bool { d := b.get(); return !d.Withdrawn.IsZero() && !d.Purge })
	if d := a.get(); d.Owner.Kind != spec.OwnerFile || !d.Withdrawn.IsZero() {
		t.Errorf("a has %+v", d)
	}
}

// TestLocalStaysLocal checks that a host-bound pipeline is not shared, that a shared pipeline cannot become host-bound,
// and that a pipeline that the API declared for its agent only stays private.
func TestLocalStaysLocal(t *testing.T) {
	t.Parallel()
	m := &clustertest.Memory{}
	a := newDeclaredHost(t, "a", m)
	must(t, a.declare(pipeline("1", "builtin:spool"), api, ""))
	if d := a.get(); cluster.IsShared(&d) || len(m.All()) != 0 {
		t.Errorf("a pipeline with a spool is shared: %+v", d)
	}
	d := a.get()
	must(t, a.declare(pipeline("2", "builtin:log"), api, d.Version()))
	if d := a.get(); cluster.IsShared(&d) || len(m.All()) != 0 || d.Pipeline.Name != "2" {
		t.Errorf("what the API declared for its agent is shared: %+v", d)
	}
	b := newDeclaredHost(t, "b", m)
	must(t, b.declare(pipeline("1", "builtin:log"), api, ""))
	d = b.get()
	if err := b.declare(pipeline("1", "builtin:spool"), api, d.Version()); !errors.Is(err, spec.ErrPrecondition) {
		t.Errorf("what is shared becomes local: %v", err)
	}
}

// TestStateOnHost checks that a pipeline that would move without its state is declared only if it says so.
func TestStateOnHost(t *testing.T) {
	a := newDeclaredHost(t, "a", &clustertest.Memory{})
	p := pipeline("once")
	p.Processors = []spec.Processor{{ID: "once", Plugin: "dedupe", Workers: 1}}
	if err := a.declare(p, api, ""); err == nil ||
		!strings.Contains(err.Error(), "remembers keys on the disk of the host") {
		t.Errorf("declared: %v", err)
	}
	if d := a.get(); d.Pipeline.ID != "" {
		t.Errorf("%+v is declared", d.Pipeline)
	}
	p.Cluster = spec.ClusterStrict
	must(t, a.declare(p, api, ""))
	a.await("once")
}
