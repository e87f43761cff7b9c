package cluster_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// TestEachClaimIsCountedOnce checks that the owner counts its own claim, that the first member counts a claim without
// an owner, and that a member without a session counts nothing.
func TestEachClaimIsCountedOnce(t *testing.T) { synctest.Test(t, testEachClaimIsCountedOnce) }

func testEachClaimIsCountedOnce(t *testing.T) {
	m := &memory{}
	a, b := prepareHost(t, "a", m), newHost(t, "b", m) // a has no declaration, so b has the pipeline
	a.run(t)
	defer a.end()
	defer b.end()
	counting := func(claim string) (who string) {
		for _, h := range []*host{a, b} {
			if cluster.Counts(t.Context(), h.member)(claim) {
				who += h.member.Self.Agent
			}
		}
		return who
	}
	wait.For(t, "both to be live, and b to have the pipeline", func() bool {
		return len(a.members(t)) == 2 && len(b.members(t)) == 2 && b.member.RunsHere("p") &&
			a.member.Claims("p")[0].Owner == "b"
	})
	if got := counting("p"); got != "b" {
		t.Errorf("a claim of b is counted by %q", got)
	}
	for _, claim := range []string{"stopped", protocol.InstanceID("p", 2)} {
		if got := counting(claim); got != "a" {
			t.Errorf("the claim %s that nobody has is counted by %q", claim, got)
		}
	}
	if c := prepareHost(t, "0", m); cluster.Counts(ended(t), c.member)("stopped") {
		t.Error("a member without a session counts")
	}
}

// members returns the sessions that a member knows.
func (h *host) members(t *testing.T) []protocol.MemberView {
	t.Helper()
	v, err := h.member.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return v.Members
}

// ended returns a context that is done.
func ended(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
