package cluster_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/agent/agenttest/clustertest"
	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// memory is an in-memory store of a cluster.
type memory struct{ clustertest.Memory }

// host is an agent that takes part in a cluster but runs no pipelines.
type host struct {
	db     *store.DB
	shared *cluster.Shared
	member *cluster.Member
	placed chan string
	end    func()

	cleaned chan string // connector of each attempt
}

func newHost(t *testing.T, name string, m *memory) *host {
	t.Helper()
	h := prepareHost(t, name, m)
	h.run(t)
	h.member.Declare(t.Context(), protocol.Declared{Run: map[string]protocol.Declaration{"p": {Digest: "d"}}})
	return h
}

func prepareHost(t *testing.T, name string, m *memory) *host {
	t.Helper()
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "conduit.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	h := &host{db: db, placed: make(chan string, 100), cleaned: make(chan string, 100)}
	h.member = &cluster.Member{
		Store: m, Self: protocol.Session{Agent: name}, Timing: protocol.TimingOf(20 * time.Second),
		Log:    slog.New(slog.DiscardHandler),
		Placed: func(id string) { h.placed <- id },
		Lost:   func(string) {},
		Idle:   func(context.Context, string) bool { return true },
	}
	h.shared = &cluster.Shared{Local: db, Member: h.member, Clustered: func(string) bool { return true }}
	h.member.Adopt, h.member.Retire = h.shared.Adopt, h.retire
	return h
}

// run makes the member take part until end.
func (h *host) run(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = h.member.Run(ctx) }()
	h.end = func() { cancel(); <-ended }
}

// save begins a new run and saves a position in it.
func (h *host) save(t *testing.T, position string) error {
	t.Helper()
	epoch, err := h.shared.BeginRun(t.Context(), "p")
	if err != nil {
		return err
	}
	c := spec.Checkpoint{ConnectorID: "p:in", PipelineID: "p", Plugin: "file", Position: record.Position(position),
		Epoch: epoch, Sequence: 1}
	if err := h.shared.SaveCheckpoints(t.Context(), []spec.Checkpoint{c}); err != nil {
		return err
	}
	replicated := make(chan error)
	go h.shared.Replicate([]spec.Checkpoint{c}, func(_ string, err error) { replicated <- err })
	return <-replicated
}

// TestStateGoesFromOwnerToOwner checks that the next owner of a pipeline has the previous owner's positions and
// connector states, and no state of its own.
func TestStateGoesFromOwnerToOwner(t *testing.T) { synctest.Test(t, testStateGoesFromOwnerToOwner) }

func testStateGoesFromOwnerToOwner(t *testing.T) {
	shared := &memory{}
	b := newHost(t, "b", &memory{}) // a member of another cluster, at first
	<-b.placed
	if err := b.save(t, "of an earlier time"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"p:in", "p:gone"} {
		if err := b.shared.SaveConnectorState(t.Context(),
			&spec.ConnectorState{ID: id, PipelineID: "p", Plugin: "old"}); err != nil {
			t.Fatal(err)
		}
	}

	a := newHost(t, "a", shared)
	<-a.placed
	in := &spec.ConnectorState{ID: "p:in", PipelineID: "p", Type: spec.TypeSource, Plugin: "file",
		Active: map[string]string{"path": "x"}}
	if err := errors.Join(a.shared.SaveConnectorState(t.Context(), in), a.save(t, "1"), a.save(t, "2")); err != nil {
		t.Fatal(err)
	}
	if err := a.member.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.save(t, "3"); !errors.Is(err, cluster.ErrNotOwner) {
		t.Errorf("an agent that gave the pipeline away saves: %v", err)
	}
	a.end()

	e, err := shared.Read(t.Context(), protocol.ClaimKey("p"))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.shared.Adopt(t.Context(), "p", e.State); err != nil {
		t.Fatal(err)
	}
	c, err := b.db.Checkpoint(t.Context(), "p:in")
	if err != nil || c == nil || string(c.Position) != "2" || c.Plugin != "file" {
		t.Errorf("the next owner begins at %+v, %v; want position 2", c, err)
	}
	states, err := b.db.ConnectorStates(t.Context())
	if diff := cmp.Diff([]spec.ConnectorState{*in}, states); err != nil || diff != "" {
		t.Errorf("connectors at the next owner, %v (-want +got):\n%s", err, diff)
	}
	b.end()
}

// TestLabels checks that a pipeline runs on a member with the required labels, moves when the required labels change,
// and runs nowhere when no member has them.
func TestLabels(t *testing.T) { synctest.Test(t, testLabels) }

func testLabels(t *testing.T) {
	shared := &memory{}
	hosts := map[string]*host{}
	unplaced := make(chan protocol.Notice, 100)
	for _, site := range []string{"berlin", "paris"} {
		hosts[site] = prepareHost(t, site, shared)
		hosts[site].member.Self.Labels = map[string]string{"site": site}
		hosts[site].member.Happened = func(n protocol.Notice) {
			if n.Reason == protocol.Unplaced {
				unplaced <- n
			}
		}
		hosts[site].run(t)
	}
	ask := func(site string) {
		for _, h := range hosts {
			h.member.Declare(t.Context(),
				protocol.Declared{Run: map[string]protocol.Declaration{"p": {Digest: "d",
					Labels: map[string]string{"site": site}}}})
		}
	}
	for _, site := range []string{"paris", "berlin", "paris"} {
		ask(site)
		wait.For(t, "a member to run the pipeline in "+site, func() bool { return hosts[site].member.RunsHere("p") })
	}
	ask("rome")
	if n := <-unplaced; n.Pipeline != "p" {
		t.Errorf("the notice is %+v", n)
	}
	for site, h := range hosts {
		if h.member.RunsHere("p") {
			t.Errorf("a member in %s runs a pipeline for rome", site)
		}
		h.end()
	}
}

// TestMovePosition moves the position of a source in the claim of a pipeline that no member runs. The next owner
// resumes there.
func TestMovePosition(t *testing.T) { synctest.Test(t, testMovePosition) }

func testMovePosition(t *testing.T) {
	shared := &memory{}
	a, b := newHost(t, "a", shared), prepareHost(t, "b", shared)
	<-a.placed
	if err := a.save(t, "1"); err != nil {
		t.Fatal(err)
	}
	to := func(position string) spec.Checkpoint {
		return spec.Checkpoint{ConnectorID: "p:in", PipelineID: "p", Plugin: "file",
			Position: record.Position(position)}
	}
	owned := new(cluster.OwnedError)
	if err := b.shared.MovePosition(t.Context(), to("5"), record.Position("1")); !errors.As(err, &owned) ||
		owned.Member != "a" {
		t.Errorf("while a runs the pipeline: %v", err)
	}
	if err := a.member.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.shared.MovePosition(t.Context(), to("5"), record.Position("0")); !errors.Is(err, spec.ErrConflict) {
		t.Errorf("from a position that it does not have: %v", err)
	}
	if err := b.shared.MovePosition(t.Context(), to("5"), record.Position("1")); err != nil {
		t.Error(err)
	}
	if c, err := a.shared.Position(t.Context(), "p", "p:in"); err != nil || c == nil || string(c.Position) != "5" ||
		c.Plugin != "file" {
		t.Errorf("the position is %+v, %v", c, err)
	}
	if err := a.member.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "a to run the pipeline", func() bool { return a.member.RunsHere("p") })
	if c, err := a.db.Checkpoint(t.Context(), "p:in"); err != nil || c == nil || string(c.Position) != "5" {
		t.Errorf("the next owner begins at %+v, %v", c, err)
	}
	if err := errors.Join(a.member.Drain(t.Context()), b.shared.MovePosition(t.Context(),
		spec.Checkpoint{ConnectorID: "p:in", PipelineID: "p"}, record.Position("5"))); err != nil {
		t.Error(err)
	}
	if c, err := b.shared.Position(t.Context(), "p", "p:in"); err != nil || c != nil {
		t.Errorf("after it was reset the position is %+v, %v", c, err)
	}
	a.end()
}

// TestStoreGoesBack restores an older state of the store under an owner, and then empties the store. The owner stops
// and does not overwrite it.
func TestStoreGoesBack(t *testing.T) {
	for name, keep := range map[string]bool{"backup": true, "another stream": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testStoreGoesBack(t, keep) })
		})
	}
}

func testStoreGoesBack(t *testing.T, keep bool) {
	shared := &memory{}
	a := prepareHost(t, "a", shared)
	lost, rolledBack := make(chan string, 10), make(chan string, 10)
	a.member.Lost = func(id string) { lost <- id }
	a.member.Happened = func(n protocol.Notice) {
		if n.Reason == protocol.RolledBack && n.Pipeline != "" {
			rolledBack <- n.Pipeline
		}
	}
	a.run(t)
	a.member.Declare(t.Context(), protocol.Declared{Run: map[string]protocol.Declaration{"p": {Digest: "d"}}})
	wait.For(t, "a to run the pipeline", func() bool { return a.member.RunsHere("p") })
	if err := a.save(t, "1"); err != nil {
		t.Fatal(err)
	}
	backup := shared.claimOf("p")
	if err := a.save(t, "2"); err != nil {
		t.Fatal(err)
	}
	shared.restore("p", backup, keep)
	if err := a.save(t, "3"); !errors.Is(err, cluster.ErrNotOwner) {
		t.Errorf("a position is saved over what the store went back to: %v", err)
	}
	wait.For(t, "the pipeline to be stopped for this reason", func() bool {
		return len(lost) == 1 && len(rolledBack) == 1
	})
	if got := shared.claimOf("p"); keep != (got.Revision == backup.Revision) || !keep && got.Value != nil {
		t.Errorf("the claim is written over: %+v", got)
	}
	a.end()
}

func (m *memory) claimOf(pipeline string) protocol.Entry {
	e, _ := m.Read(context.Background(), protocol.ClaimKey(pipeline))
	return e
}

// restore replaces the claim of a pipeline by an earlier entry, or deletes it.
func (m *memory) restore(pipeline string, e protocol.Entry, keep bool) {
	if key := protocol.ClaimKey(pipeline); keep {
		m.Restore(key, e)
	} else {
		m.Expire(key)
	}
}
