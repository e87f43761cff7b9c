package cluster_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster"
	"github.com/conduit-agent/conduit/agent/cluster/protocol"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// TestOtherFiles checks that a member with another version of a declaration leaves the pipeline to the members that
// have the running version, and that a member without the file changes nothing.
func TestOtherFiles(t *testing.T) { synctest.Test(t, testOtherFiles) }

func testOtherFiles(t *testing.T) {
	shared := &memory{}
	a := newHost(t, "a", shared)
	<-a.placed
	if err := a.save(t, "1"); err != nil {
		t.Fatal(err)
	}
	differs := make(chan protocol.Notice, 10)
	b := prepareHost(t, "b", shared)
	b.member.Happened = func(n protocol.Notice) {
		if n.Reason == protocol.Differs {
			differs <- n
		}
	}
	b.run(t)
	b.member.Declare(t.Context(), protocol.Declared{Run: map[string]protocol.Declaration{"p": {Digest: "another"}}})
	without := prepareHost(t, "without", shared)
	without.run(t)
	without.member.Declare(t.Context(), protocol.Declared{})
	if err := a.member.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := <-differs; n.Pipeline != "p" {
		t.Errorf("the notice is %+v", n)
	}
	released := shared.claimOf("p")
	if err := a.member.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "a to run the pipeline", func() bool { return a.member.RunsHere("p") })
	if b.member.RunsHere("p") || without.member.RunsHere("p") {
		t.Error("a member without this version of the declaration runs the pipeline")
	}
	var before, after protocol.Claim
	if err := json.Unmarshal(released.Value, &before); err != nil || before.Digest != "d" || len(released.State) == 0 {
		t.Errorf("the claim that was released is %s, state %s, %v", released.Value, released.State, err)
	}
	if err := json.Unmarshal(shared.claimOf("p").Value, &after); err != nil || after.Owner != "a" ||
		after.Digest != "d" {
		t.Errorf("the claim is %+v, %v", after, err)
	}
	for _, h := range []*host{a, b, without} {
		h.end()
	}
}

// TestOtherFilesForLong checks that a member with another version of a declaration takes the pipeline over when the
// members that have the running version have left it alone for long enough. It resumes from the position of the last
// owner.
func TestOtherFilesForLong(t *testing.T) { synctest.Test(t, testOtherFilesForLong) }

func testOtherFilesForLong(t *testing.T) {
	shared := &memory{}
	a := newHost(t, "a", shared)
	<-a.placed
	if err := a.save(t, "1"); err != nil {
		t.Fatal(err)
	}
	b := prepareHost(t, "b", shared)
	b.member.Timing.Differ = 5 * time.Second // much longer than it takes to notice a free claim
	differs := make(chan protocol.Notice, 100)
	b.member.Happened = func(n protocol.Notice) {
		if n.Reason == protocol.Differs {
			differs <- n
		}
	}
	b.run(t)
	b.member.Declare(t.Context(), protocol.Declared{Run: map[string]protocol.Declaration{"p": {Digest: "another"}}})
	if err := a.member.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "b to run the pipeline", func() bool { return b.member.RunsHere("p") })
	if len(differs) == 0 {
		t.Error("b took the pipeline without a word of its other version")
	}
	if c := shared.decoded(t); c.Owner != "b" || c.Digest != "another" {
		t.Errorf("the claim is %+v", c)
	}
	if c, err := b.db.Checkpoint(t.Context(), "p:in"); err != nil || c == nil || string(c.Position) != "1" {
		t.Errorf("b resumes from %+v, %v", c, err)
	}
	if err := a.member.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if all := cluster.Owned(b.member); len(all) != 1 || all[0].Pipeline != "p" || all[0].Since.IsZero() {
		t.Errorf("b has the claims %+v", all)
	}
	if all := cluster.Owned(a.member); len(all) != 0 {
		t.Errorf("a has the claims %+v", all)
	}
	for _, h := range []*host{a, b} {
		h.end()
	}
}

// TestNewerVersion checks that a claim written by a newer version is left alone.
func TestNewerVersion(t *testing.T) { synctest.Test(t, testNewerVersion) }

func testNewerVersion(t *testing.T) {
	shared := &memory{}
	key := protocol.ClaimKey("p")
	newer := protocol.Entry{Key: key, Value: []byte(`{"format":99,"pipeline":"p","stamp":{"session":"x","write":1}}`)}
	shared.Write(t.Context(), protocol.Write{Entry: newer})
	left := make(chan protocol.Notice, 10)
	h := prepareHost(t, "a", shared)
	h.member.Happened = func(n protocol.Notice) {
		if n.Reason == protocol.NewerFormat {
			left <- n
		}
	}
	h.run(t)
	h.member.Declare(t.Context(), protocol.Declared{Run: map[string]protocol.Declaration{"p": {Digest: "d"},
		"other": {Digest: "d"}}})
	if n := <-left; n.Pipeline != "p" {
		t.Errorf("the notice is %+v", n)
	}
	wait.For(t, "the other pipeline to run", func() bool { return h.member.RunsHere("other") })
	if got := shared.claimOf("p"); h.member.RunsHere("p") || string(got.Value) != string(newer.Value) {
		t.Errorf("the claim is %s", got.Value)
	}
	h.end()
}
