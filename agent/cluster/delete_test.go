package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/spec"
)

// TestDeletedPipeline removes the file of a pipeline on one member after another. The claim, the positions and the
// override are kept while one member has the file, and deleted after that. A member that returns with an old file
// leaves the pipeline alone, and one that declares it again starts from the beginning.
func TestDeletedPipeline(t *testing.T) { synctest.Test(t, testDeletedPipeline) }

func testDeletedPipeline(t *testing.T) {
	shared := &memory{}
	idle := protocol.Declared{Idle: map[string]bool{"p": true}}
	gone := protocol.Declared{Gone: map[string]protocol.Declaration{"p": {}}}
	wanted := protocol.Declared{Run: map[string]protocol.Declaration{"p": {Digest: "d"}}}
	outdated := make(chan protocol.Notice, 100)
	a, b, old := deletingHost(t, "a", shared, nil), deletingHost(t, "b", shared, nil),
		deletingHost(t, "old", shared, outdated)
	a.run(t)
	a.member.Declare(t.Context(), wanted)
	<-a.placed
	in := &spec.ConnectorState{ID: "p:in", PipelineID: "p", Type: spec.TypeSource, Plugin: "file"}
	if err := errors.Join(a.shared.SaveConnectorState(t.Context(), in), a.save(t, "1")); err != nil {
		t.Fatal(err)
	}
	if err := a.member.SetOverride(t.Context(), "p", spec.StatusRunning, "d"); err != nil {
		t.Fatal(err)
	}
	b.run(t)
	b.member.Declare(t.Context(), idle)
	a.member.Declare(t.Context(), gone)
	wait.For(t, "b to remove the mark of a", func() bool {
		c := shared.decoded(t)
		return c.Stamp.Session != "" && c.Owner == "" && c.Withdrawn == "" && shared.marks("p") == 1
	})
	time.Sleep(2 * time.Second) // longer than a claim is kept
	if c := shared.decoded(t); c.Deleted || c.Withdrawn != "" {
		t.Fatalf("a claim is deleted though a member has the file: %+v", c)
	}
	b.member.Declare(t.Context(), gone)
	wait.For(t, "the claim to be deleted", func() bool { return shared.decoded(t).Deleted })
	if tried := triedToCleanUp(a, b); len(tried) != 2 || tried[0] != tried[1] || !strings.HasSuffix(tried[0], " p:in") {
		t.Errorf("tries to clean up, of which the second one succeeds: %q", tried)
	}
	wait.For(t, "what was asked for to be deleted", func() bool {
		var o cluster.Override
		e, _ := shared.Read(t.Context(), protocol.OverrideKey("p"))
		return json.Unmarshal(e.Value, &o) == nil && o.Digest == "" && a.member.Override("p").Digest == ""
	})
	late := &lateMemory{memory: shared, open: make(chan struct{})}
	old.member.Store = late
	old.run(t)
	old.member.Declare(t.Context(), wanted) // before it has a session: a declaration made during a session may be new
	close(late.open)
	wait.For(t, "old to say that it has what was deleted", func() bool { return len(outdated) > 0 })
	if n := <-outdated; n.Pipeline != "p" || !shared.decoded(t).Deleted {
		t.Errorf("the notice is %+v, the claim %+v", n, shared.decoded(t))
	}
	a.member.Declare(t.Context(), wanted)
	wait.For(t, "a to run the pipeline again", func() bool { return a.member.RunsHere("p") })
	if c, err := a.db.Checkpoint(t.Context(), "p:in"); err != nil || c != nil {
		t.Errorf("a pipeline that was deleted resumes from %+v, %v", c, err)
	}
	for _, h := range []*host{a, b, old} {
		h.end()
	}
}

// lateMemory shows its entries once it is opened.
type lateMemory struct {
	*memory
	open chan struct{}
}

func (m *lateMemory) Watch(ctx context.Context, observe func(protocol.Entry), synced func()) error {
	<-m.open
	return m.memory.Watch(ctx, observe, synced)
}

// retire fails on the first attempt.
func (h *host) retire(ctx context.Context, pipeline string) error {
	tries := 0
	return h.shared.Retire(ctx, pipeline, func(_ context.Context, c *spec.ConnectorState) error {
		h.cleaned <- c.ID
		if tries++; tries == 1 {
			return errors.New("the first try fails")
		}
		return nil
	}, func(string, int) time.Duration { return 50 * time.Millisecond })
}

// triedToCleanUp returns the host and the connector of each clean-up attempt.
func triedToCleanUp(hosts ...*host) (all []string) {
	for _, h := range hosts {
		close(h.cleaned)
		for id := range h.cleaned {
			all = append(all, h.member.Self.Agent+" "+id)
		}
	}
	return all
}

// deletingHost returns a host that deletes pipelines that no member has declared for half a second.
func deletingHost(t *testing.T, name string, m *memory, outdated chan<- protocol.Notice) *host {
	t.Helper()
	h := prepareHost(t, name, m)
	h.member.Timing.Retire = 500 * time.Millisecond
	h.member.Timing.TTL = time.Second // nothing is deleted earlier
	h.member.Happened = func(n protocol.Notice) {
		if n.Reason == protocol.Outdated && outdated != nil {
			outdated <- n
		}
	}
	return h
}

// decoded returns the claim of pipeline p.
func (m *memory) decoded(t *testing.T) (c protocol.Claim) {
	t.Helper()
	if e := m.claimOf("p"); e.Value != nil {
		if err := json.Unmarshal(e.Value, &c); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// marks counts the writes that marked a claim.
func (m *memory) marks(pipeline string) (n int) {
	for _, w := range m.Written() {
		var c protocol.Claim
		if w.Key == protocol.ClaimKey(pipeline) && json.Unmarshal(w.Value, &c) == nil && c.Withdrawn != "" &&
			!c.Deleted {
			n++
		}
	}
	return n
}
