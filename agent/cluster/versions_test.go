package cluster_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/agent/agenttest/clustertest"
	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/reconcile"
	"github.com/conduit-agent/conduit/spec"
)

// versionsHost is a member with its declaration of pipeline p and the versions that its reconcile loop inherits.
type versionsHost struct {
	*testing.T
	share     *cluster.Versions
	store     *clustertest.Memory
	declared  spec.Declaration
	revisions []spec.Revision
	epoch     uint64 // of the member's claim; 0 if it has none
	inherited []reconcile.VersionOutcome
}

func newVersionsHost(t *testing.T, name string, m *clustertest.Memory, generation int64, version string) *versionsHost {
	t.Helper()
	h := &versionsHost{T: t, store: m,
		declared: spec.Declaration{Pipeline: versionsPipeline(version), Generation: generation}}
	h.share = &cluster.Versions{Member: name, Store: m, Local: h, Loop: h, Log: slog.New(slog.DiscardHandler),
		Owner: h.owner}
	m.Follow(func(e protocol.Entry) { h.share.Note(e) })
	return h
}

func versionsPipeline(version string) spec.Pipeline {
	p := spec.Pipeline{ID: "p", Status: spec.StatusRunning, Name: version}
	p.Connectors = []spec.Connector{{ID: "in", Type: spec.TypeSource, Plugin: version}}
	spec.Normalize(&p)
	return p
}

func (h *versionsHost) owner(string) (string, uint64, bool) { return "p", h.epoch, h.epoch > 0 }

func (h *versionsHost) Get(context.Context, string) (spec.Declaration, error) { return h.declared, nil }

func (h *versionsHost) History(context.Context, string) ([]spec.Revision, error) {
	return h.revisions, nil
}

func (h *versionsHost) RaiseGeneration(_ context.Context, _ string, least int64) error {
	h.declared.Generation = max(h.declared.Generation, least)
	return nil
}

func (h *versionsHost) Inherit(_ context.Context, id string, t reconcile.VersionOutcome) error {
	if id != "p" {
		h.Errorf("inherited %s", id)
	}
	h.inherited = append(h.inherited, t)
	return nil
}

// tried publishes a result of the member's loop and expects the given number of writes in total.
func (h *versionsHost) tried(t reconcile.VersionOutcome, writes int) {
	h.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	go h.share.Run(ctx)
	h.share.Record("p", t)
	synctest.Wait()
	cancel()
	synctest.Wait()
	if n := len(h.store.Written()); n != writes {
		h.Errorf("%d writes, want %d", n, writes)
	}
}

// version returns a result with a good version and, if failed is not empty, a failed one.
func version(generation int64, good, failed, why string) reconcile.VersionOutcome {
	t := reconcile.VersionOutcome{Good: &spec.LastGood{Generation: generation, Pipeline: versionsPipeline(good)}}
	if failed != "" {
		p := versionsPipeline(failed)
		t.Failed = &reconcile.FailedVersion{RunDigest: spec.RunDigest(&p),
			Attempt: spec.Attempt{Generation: generation + 3, At: time.Unix(1700000000, 0).UTC(), Error: why}}
	}
	return t
}

// TestNextOwner checks that a member continues from the results of the previous owner: it shows the failed version and
// does not try it again, and keeps the good one.
func TestNextOwner(t *testing.T) { synctest.Test(t, testNextOwner) }

func testNextOwner(t *testing.T) {
	m := &clustertest.Memory{}
	a, b := newVersionsHost(t, "a", m, 5, "2"), newVersionsHost(t, "b", m, 1, "2")
	a.epoch = 7
	a.tried(version(4, "1", "2", "no such table"), 1)
	f := b.share.Failed(t.Context(), "p")
	if f == nil || f.Member != "a" || f.Generation != 7 || f.Error != "no such table" {
		t.Fatalf("what failed is %+v", f)
	}
	a.epoch, b.epoch = 0, 9
	if err := b.share.Inherit(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	want := version(4, "1", "2", "on the member a of the cluster: no such table")
	if diff := cmp.Diff([]reconcile.VersionOutcome{want}, b.inherited); diff != "" {
		t.Errorf("inherited (-want +got):\n%s", diff)
	}
	if b.declared.Generation != 7 {
		t.Errorf("the version that failed has generation %d, and 7 where it failed", b.declared.Generation)
	}
	b.tried(want, 1) // the loop's result after Inherit is nothing new
	b.tried(version(4, "0", "2", want.Failed.Error), 2)
	if again := a.share.Failed(t.Context(), "p"); again == nil || again.Member != "a" ||
		again.Error != "no such table" {
		t.Errorf("published again: %+v", again)
	}
	b.declared.Pipeline = versionsPipeline("3")
	if f := b.share.Failed(t.Context(), "p"); f != nil {
		t.Errorf("another version is declared by now, and this one failed: %+v", f)
	}
}

// TestNumbers checks members that number their versions differently: the good version keeps its local generation, and
// the declared version has a greater one.
func TestNumbers(t *testing.T) { synctest.Test(t, testNumbers) }

func testNumbers(t *testing.T) {
	m := &clustertest.Memory{}
	a := newVersionsHost(t, "a", m, 5, "2")
	a.epoch = 7
	a.tried(version(4, "1", "2", "why"), 1)
	good := versionsPipeline("1")
	for name, c := range map[string]struct {
		generation     int64
		declared       string
		revisions      []spec.Revision
		good, expected int64 // generations of the good version and of the declared one
	}{
		"never declared here":       {1, "2", nil, 4, 7},
		"declared here before":      {8, "2", []spec.Revision{{Generation: 3, Spec: &good}, {Generation: 8}}, 3, 8},
		"declared here again":       {9, "1", nil, 9, 9},
		"a third version, unknown":  {2, "3", nil, 4, 5},
		"a third version, known":    {6, "3", []spec.Revision{{Generation: 5, Spec: &good}}, 5, 6},
		"of a later declaration":    {8, "2", []spec.Revision{{Generation: 30, Spec: &good}}, 4, 8},
		"more versions than before": {20, "2", nil, 4, 20},
	} {
		b := newVersionsHost(t, "b", m, c.generation, c.declared)
		b.revisions = c.revisions
		if err := b.share.Inherit(t.Context(), "p"); err != nil {
			t.Fatal(err)
		}
		if got := b.inherited[0].Good.Generation; got != c.good || b.declared.Generation != c.expected {
			t.Errorf("%s: the good version has generation %d, the declared one %d", name, got, b.declared.Generation)
		}
	}
}

// TestWhoPublishes checks that only the owner publishes, that it publishes only new results, and that nobody overwrites
// the record of a later owner or of a newer version of the agent.
func TestWhoPublishes(t *testing.T) { synctest.Test(t, testWhoPublishes) }

func testWhoPublishes(t *testing.T) {
	m := &clustertest.Memory{}
	a, b := newVersionsHost(t, "a", m, 5, "2"), newVersionsHost(t, "b", m, 5, "2")
	a.tried(version(4, "1", "", ""), 0)
	a.epoch = 7
	a.tried(version(4, "1", "", ""), 1)
	a.tried(version(4, "1", "", ""), 1)
	b.epoch = 9
	b.tried(version(5, "2", "", ""), 2)
	a.tried(version(4, "1", "2", "why"), 2)
	if f := b.share.Failed(t.Context(), "p"); f != nil {
		t.Errorf("a former owner published %+v", f)
	}
	e, _ := m.Read(t.Context(), protocol.VersionsKey("p"))
	var record map[string]any
	if err := json.Unmarshal(e.Value, &record); err != nil {
		t.Fatal(err)
	}
	record["format"] = 2
	e.Value, _ = json.Marshal(record)
	m.Write(t.Context(), protocol.Write{Entry: e})
	b.tried(version(5, "2", "3", "why"), 3)
	if err := b.share.Inherit(t.Context(), "p"); err != nil || len(b.inherited) != 0 {
		t.Errorf("inherited %+v of a newer format: %v", b.inherited, err)
	}
}

// TestLongErrors checks that an error longer than the limit is cut between two characters.
func TestLongErrors(t *testing.T) { synctest.Test(t, testLongErrors) }

func testLongErrors(t *testing.T) {
	m := &clustertest.Memory{}
	a := newVersionsHost(t, "a", m, 5, "2")
	a.epoch = 7
	a.tried(version(4, "1", "2", strings.Repeat("é", 999)+"x"), 1)
	if f := a.share.Failed(t.Context(), "p"); f == nil || len(f.Error) < 900 || len(f.Error) > 1000 ||
		!utf8.ValidString(f.Error) {
		t.Errorf("what failed is %+v", f)
	}
}
