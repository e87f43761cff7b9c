package deadletters_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/cluster/deadletters"
	"github.com/conduit-agent/conduit/agent/deadletter"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// selected returns the dead letters that a replay on a member would read.
func (h *host) selected(request spec.ReplayRequest) (all []deadletter.Replay, skipped int) {
	h.Helper()
	next, err := h.Select(h.Context(), "p", request, nil)
	must(h.T, err)
	for {
		some, n, err := next(h.Context())
		must(h.T, err)
		if len(some)+n == 0 {
			return all, skipped
		}
		all, skipped = append(all, some...), skipped+n
	}
}

// TestReplay replays on a member that does not run the pipeline. The member reads the selected dead letters, and takes
// back those that are refused again.
func TestReplay(t *testing.T) {
	t.Parallel()
	m := &memory{}
	a, b := newHost(t, m, deadletter.Limits{}).owns("p", 7), newHost(t, m, deadletter.Limits{})
	for i := range 300 {
		a.keep("p", fmt.Sprint(i))
	}
	stopped := refused("p", "stopped", "")
	stopped.Stopped = true
	must(t, a.Keep(t.Context(), declared("p"), stopped))
	must(t, a.commit("p"))
	next, err := b.Select(t.Context(), "p", spec.ReplayRequest{All: true}, nil)
	must(t, err)
	a.keep("p", "later")
	must(t, a.commit("p"))
	var all []deadletter.Replay
	skipped := 0
	for {
		some, n, err := next(t.Context())
		must(t, err)
		if len(some)+n == 0 {
			break
		}
		all, skipped = append(all, some...), skipped+n
	}
	if len(all) != 300 || skipped != 1 || string(all[0].Record.Position) != "0" || all[299].ID != 300 ||
		all[0].Entry.Connector != "out" || all[0].SourceID != "p:in" {
		t.Fatalf("%d are to be replayed and %d skipped, first %+v", len(all), skipped, all[0])
	}
	if some, _ := b.selected(spec.ReplayRequest{IDs: []int64{3, 299, 999}}); len(some) != 2 || some[0].ID != 3 ||
		some[1].ID != 299 {
		t.Errorf("named: %+v", some)
	}
	if some, _ := b.selected(spec.ReplayRequest{Filter: &spec.DeadLetterFilter{Key: "29"}}); len(some) != 13 {
		t.Errorf("%d are selected, want 29, 129, 229 and 290 to 299", len(some))
	}
	_, err = b.Edit(t.Context(), "p", 4,
		&record.Record{Position: record.Position("3"), Key: record.Raw([]byte("edited"))})
	must(t, err)
	must(t, b.Settled(t.Context(), "p", all[:290]))
	again := refused("p", "295", "")
	again.RefusedBy, again.Entry = "p:refuse", "p:refuse"
	replayed := deadletters.Replayed{Store: b.Store}
	must(t, replayed.Again(t.Context(), declared("p"), 296, again, true))
	must(t, replayed.Again(t.Context(), declared("p"), 296, refused("p", "piece", "payload"), false))
	must(t, a.commit("p"))
	a.must("p", "piece", "later", "stopped", "299", "298", "297", "296", "295", "294", "293", "292", "291", "290",
		"edited")
	one, err := a.Get(t.Context(), "p", 296)
	must(t, err)
	if one.Times != 2 || one.RefusedBy != "p:refuse" || one.Stage != spec.RefusedByPipelineProcessor ||
		!one.Refusals[1].Replay || one.Refusals[0].Replay {
		t.Errorf("what was refused again is %+v", one)
	}
	a.keep("p", "piece", "next") // the owner continues, and knows of the additions of the replay
	must(t, a.commit("p"))
	if all := b.list("p", spec.DeadLetterFilter{}, 3); all[0].Key != "next" || all[1].Key != "piece" ||
		all[1].Times != 2 {
		t.Errorf("there are %+v and %+v", all[0], all[1])
	}
}

// TestOriginalRecordsAreShared keeps the record as it was read through an edit and another refusal, on every member.
func TestOriginalRecordsAreShared(t *testing.T) {
	t.Parallel()
	m := &memory{}
	a, b := newHost(t, m, deadletter.Limits{}).owns("p", 7), newHost(t, m, deadletter.Limits{})
	for _, text := range []string{"1", "2"} {
		l := refused("p", text, "changed")
		original := l.Record.Clone()
		original.After = record.Structured(map[string]any{"bytes": []byte{0xff}})
		l.Original = &original
		must(t, a.Keep(t.Context(), declared("p"), l))
	}
	must(t, a.commit("p"))
	_, err := b.Edit(t.Context(), "p", 1, &record.Record{Position: record.Position("1")})
	must(t, err)
	again := refused("p", "2", "again")
	again.RefusedBy, again.Entry = "p:refuse", "p:refuse"
	all, _ := b.selected(spec.ReplayRequest{All: true})
	again.Original, err = all[1].Original()
	must(t, err)
	must(t, deadletters.Replayed{Store: b.Store}.Again(t.Context(), declared("p"), 2, again, true))
	all, _ = a.selected(spec.ReplayRequest{All: true})
	for i, l := range all {
		original, err := l.Original()
		if err != nil || original == nil {
			t.Fatalf("dead letter %d: %v %v", l.ID, original, err)
		}
		if got, _ := original.After.Structured(); string(got["bytes"].([]byte)) != "\xff" {
			t.Errorf("dead letter %d as read: %v", l.ID, got)
		}
		one, err := a.Get(t.Context(), "p", int64(i+1))
		if must(t, err); !strings.Contains(string(one.Original), "bytes") ||
			strings.Contains(string(one.Record), "original") || one.Edited != (i == 0) {
			t.Errorf("dead letter %+v", one)
		}
	}
}

// TestOneReplay checks that only one member at a time replays a pipeline.
func TestOneReplay(t *testing.T) {
	t.Parallel()
	m := &memory{}
	a, b := newMember(t, "a", m, m, deadletter.Limits{}), newMember(t, "b", m, m, deadletter.Limits{})
	unasked := func(error) { t.Error("a replay is ended") }
	end, err := a.Begin(t.Context(), "p", replayStatus, unasked)
	must(t, err)
	if _, err := b.Begin(t.Context(), "p", replayStatus, unasked); !errors.Is(err, spec.ErrBusy) ||
		!strings.Contains(err.Error(), "on the member a ") {
		t.Errorf("while a replays: %v", err)
	}
	other, err := b.Begin(t.Context(), "q", replayStatus, unasked)
	must(t, err)
	other(replayStatus())
	end(replayStatus())
	end, err = b.Begin(t.Context(), "p", replayStatus, unasked)
	must(t, err)
	end(replayStatus())
}

// TestDeletedClaim drops the dead letters of a deleted pipeline, but none of a pipeline that was declared anew.
func TestDeletedClaim(t *testing.T) {
	t.Parallel()
	m := &memory{}
	a, b := newHost(t, m, deadletter.Limits{}).owns("p", 7), newHost(t, m, deadletter.Limits{})
	for i := range 300 {
		a.keep("p", fmt.Sprint(i))
	}
	must(t, a.commit("p"))
	b.Deleted(t.Context(), "p", 9, time.Hour)
	a.must("p")
	for key, e := range m.All() {
		if e.State != nil {
			t.Errorf("%s still has dead letters", key)
		}
	}
	a.owns("p", 10).keep("p", "new")
	must(t, a.commit("p"))
	b.Deleted(t.Context(), "p", 9, time.Hour)
	b.must("p", "new")
}

// TestInstances checks that the instances of a pipeline keep their dead letters apart, under one name.
func TestInstances(t *testing.T) {
	t.Parallel()
	m := &memory{}
	a, b := newHost(t, m, deadletter.Limits{}).owns("p", 7), newHost(t, m, deadletter.Limits{}).owns("p/2", 8)
	a.keep("p", "1", "2")
	b.keep("p", "3", "4")
	must(t, a.commit("p"))
	must(t, b.commit("p"))
	a.must("p", "4", "3", "2", "1")
	if got := a.list("p", spec.DeadLetterFilter{}, 1); len(got) != 4 {
		t.Errorf("%d in pages of one", len(got))
	}
	some, _ := a.selected(spec.ReplayRequest{All: true})
	ids := []int64{}
	for _, r := range some {
		ids = append(ids, r.ID)
	}
	if !slices.Equal(ids, []int64{1, 2, 1<<40 + 1, 1<<40 + 2}) {
		t.Errorf("ids %v", ids)
	}
	if n, err := a.Drop(t.Context(), "p", []int64{2, 1<<40 + 1}); n != 2 || err != nil {
		t.Errorf("dropped %d: %v", n, err)
	}
	b.must("p", "4", "1")
	if totals, err := b.Totals(t.Context()); err != nil || len(totals) != 1 || totals[0].Count != 2 {
		t.Errorf("totals %+v %v", totals, err)
	}
	for _, h := range []*host{a, b} {
		if all := h.InStore(); len(all) != 1 || all["p"] != 2 {
			t.Errorf("in the store are %v", all)
		}
	}
	if here, err := b.TotalsHere(t.Context()); err != nil || len(here) != 1 || here[0].Count != 1 {
		t.Errorf("totals of the member's own claim %+v %v", here, err)
	}
}

// TestAge drops dead letters that are too old.
func TestAge(t *testing.T) {
	t.Parallel()
	m := &memory{}
	a := newHost(t, m, deadletter.Limits{Age: time.Hour}).owns("p", 7)
	now := time.Now()
	a.local.Clock.Read = func() (time.Time, time.Duration) { return now, 0 }
	for i := range 200 {
		a.keep("p", fmt.Sprint(i))
	}
	must(t, a.commit("p"))
	now = now.Add(50 * time.Minute)
	a.keep("p", "young")
	must(t, a.commit("p"))
	now = now.Add(20 * time.Minute)
	a.Tidy(t.Context())
	a.must("p", "young")
	if totals, err := a.Totals(t.Context()); err != nil || totals[0].Dropped != 200 {
		t.Errorf("totals %+v %v", totals, err)
	}
}

// TestLocalPipelines checks that dead letters of pipelines outside the cluster stay on the host.
func TestLocalPipelines(t *testing.T) {
	t.Parallel()
	m := &memory{}
	a := newHost(t, m, deadletter.Limits{})
	a.keep("local", "1", "2")
	must(t, a.commit("local"))
	if all := a.list("local", spec.DeadLetterFilter{}, 1); len(all) != 2 || all[0].ID != 2 || len(m.All()) != 0 {
		t.Errorf("there are %+v, and %d keys", all, len(m.All()))
	}
	if n, err := a.Drop(t.Context(), "local", []int64{2}); n != 1 || err != nil {
		t.Errorf("dropped %d: %v", n, err)
	}
	a.must("local", "1")
}
