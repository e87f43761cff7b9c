package store_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/spec"
)

func wantEqual(t testing.TB, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func pipeline(id string) spec.Pipeline {
	return spec.Pipeline{
		ID: id, Name: id, Status: spec.StatusRunning,
		Connectors: []spec.Connector{{ID: "src", Type: spec.TypeSource, Plugin: "builtin:generator",
			Settings: map[string]string{"rate": "1"}}},
	}
}

func declare(pipelines ...spec.Pipeline) *spec.Changes {
	c := &spec.Changes{}
	for _, p := range pipelines {
		c.Declare = append(c.Declare, spec.Declare{Pipeline: p,
			Owner: spec.Owner{Kind: spec.OwnerFile, Path: "a.yaml", Line: 1}, Origin: "file a.yaml:1"})
	}
	return c
}

func withdraw(id string, purge bool) *spec.Changes {
	return &spec.Changes{Withdraw: []spec.Withdraw{{ID: id, Origin: "api", Purge: purge}}}
}

func with(change func(*spec.Pipeline)) *spec.Changes {
	p := pipeline("p")
	change(&p)
	return declare(p)
}

// TestApply applies one change per case, at second 3, to a pipeline that was declared at second 1 and then overridden
// to be stopped.
func TestApply(t *testing.T) {
	twoSteps := func(a, b *spec.Changes) []*spec.Changes { return []*spec.Changes{a, b} }
	tests := map[string]struct {
		changes    []*spec.Changes
		generation int64
		override   spec.Status
		withdrawn  bool
		purge      bool
		updated    int64 // second
		history    string
	}{
		"the same again": {twoSteps(declare(pipeline("p")), nil), 1, "stopped", false, false, 2, "declare"},
		"other name": {twoSteps(with(func(p *spec.Pipeline) { p.Name = "n" }), nil), 1, "", false, false, 3,
			"declare declare"},
		"other setting": {twoSteps(with(func(p *spec.Pipeline) { p.Connectors[0].Settings["rate"] = "2" }), nil),
			2, "", false, false, 3, "declare declare"},
		"other status": {twoSteps(with(func(p *spec.Pipeline) { p.Status = spec.StatusStopped }), nil), 2, "",
			false, false, 3, "declare declare"},
		"withdrawn": {twoSteps(withdraw("p", false), nil), 1, "stopped", true, false, 3, "declare withdraw"},
		"withdrawn twice": {twoSteps(withdraw("p", false), withdraw("p", false)), 1, "stopped", true, false, 3,
			"declare withdraw"},
		"withdrawn and purged": {twoSteps(withdraw("p", false), withdraw("p", true)), 1, "stopped", true, true, 4,
			"declare withdraw delete"},
		"purged, withdrawn": {twoSteps(withdraw("p", true), withdraw("p", false)), 1, "stopped", true, true, 3,
			"declare delete"},
		"withdrawn and back": {twoSteps(withdraw("p", true), declare(pipeline("p"))), 1, "stopped", false, false, 4,
			"declare delete declare"},
		"unknown withdrawn": {twoSteps(withdraw("q", false), nil), 1, "stopped", false, false, 2, "declare"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			clock := time.Unix(1, 0)
			db, ctx := newStore(t, store.WithClock(func() time.Time { return clock })), t.Context()
			must(t, db.Apply(ctx, declare(pipeline("p"))))
			clock = time.Unix(2, 0)
			must(t, db.SetOverride(ctx, "p", spec.StatusStopped))
			first, err := db.Get(ctx, "p")
			must(t, err)
			for _, c := range tt.changes {
				clock = clock.Add(time.Second)
				if c != nil {
					must(t, db.Apply(ctx, c))
				}
			}
			d, err := db.Get(ctx, "p")
			must(t, err)
			if d.Generation != tt.generation || d.Override != tt.override || d.Purge != tt.purge ||
				d.Withdrawn.IsZero() == tt.withdrawn {
				t.Errorf("%+v", d)
			}
			if d.CreatedAt.Unix() != 1 || d.UpdatedAt.Unix() != tt.updated {
				t.Errorf("created %v, updated %v", d.CreatedAt, d.UpdatedAt)
			}
			if (d.Digest == first.Digest) != (tt.generation == 1) {
				t.Errorf("digest %s after %s", d.Digest, first.Digest)
			}
			wantEqual(t, actions(t, db, "p"), tt.history)
		})
	}
}

func actions(t *testing.T, db *store.DB, id string) (s string) {
	t.Helper()
	revisions, err := db.History(t.Context(), id)
	must(t, err)
	for i, r := range revisions {
		if i > 0 {
			s += " "
		}
		s += r.Action
	}
	return s
}

func TestApplyIsAllOrNothing(t *testing.T) {
	db, ctx := newStore(t), t.Context()
	c := declare(pipeline("p"))
	c.Files = []spec.FileState{{Path: "a.yaml"}}
	c.Events = []spec.Event{{ID: 1, Type: "normal"}, {ID: 1, Type: "normal"}}
	if err := db.Apply(ctx, c); err == nil {
		t.Fatal("two events with one id were accepted")
	}
	all, err := db.Declarations(ctx)
	must(t, err)
	files, err := db.FileStates(ctx)
	must(t, err)
	if len(all)+len(files) != 0 {
		t.Errorf("left behind: %v, %v", all, files)
	}
	for name, c := range map[string]*spec.Changes{
		"declared twice":         declare(pipeline("p"), pipeline("p")),
		"no id":                  declare(pipeline("")),
		"declared and withdrawn": {Declare: declare(pipeline("p")).Declare, Withdraw: withdraw("p", false).Withdraw},
	} {
		if db.Apply(ctx, c) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestOwnerMovesWithoutNewGeneration(t *testing.T) {
	db, ctx := newStore(t), t.Context()
	must(t, db.Apply(ctx, declare(pipeline("p"))))
	c := declare(pipeline("p"))
	c.Declare[0].Owner = spec.Owner{Kind: spec.OwnerAPI}
	must(t, db.Apply(ctx, c))
	d, err := db.Get(ctx, "p")
	must(t, err)
	if d.Owner.Kind != spec.OwnerAPI || d.Generation != 1 || actions(t, db, "p") != "declare" {
		t.Errorf("%+v", d)
	}
}

func TestWhatIsReadIsNotWhatWasPassedIn(t *testing.T) {
	db, ctx := newStore(t), t.Context()
	p := pipeline("p")
	must(t, db.Apply(ctx, declare(p)))
	p.Connectors[0].Settings["rate"] = "9"
	d, err := db.Get(ctx, "p")
	must(t, err)
	wantEqual(t, d.Pipeline, pipeline("p"))
}

func TestApplyIf(t *testing.T) {
	db, ctx := newStore(t), t.Context()
	must(t, db.ApplyIf(ctx, declare(pipeline("p")), map[string]string{"p": ""}))
	wantError(t, db.ApplyIf(ctx, declare(pipeline("p")), map[string]string{"p": ""}), spec.ErrConflict, `"p"`)
	d, err := db.Get(ctx, "p")
	must(t, err)
	other := with(func(p *spec.Pipeline) { p.Connectors[0].Plugin = "other" })
	must(t, db.ApplyIf(ctx, other, map[string]string{"p": d.Version()}))
	wantError(t, db.ApplyIf(ctx, withdraw("p", true), map[string]string{"p": d.Version()}), spec.ErrConflict)
	d, err = db.Get(ctx, "p")
	must(t, err)
	must(t, db.ApplyIf(ctx, with(func(p *spec.Pipeline) {
		p.Connectors[0].Plugin, p.Description = "other", "described"
	}), map[string]string{"p": d.Version()}))
	// The version also covers fields outside of the digest.
	wantError(t, db.ApplyIf(ctx, withdraw("p", true), map[string]string{"p": d.Version()}), spec.ErrConflict)
	must(t, db.Apply(ctx, withdraw("p", true)))
	must(t, db.ApplyIf(ctx, declare(pipeline("p")), map[string]string{"p": ""}))
}

func TestOnChange(t *testing.T) {
	db, ctx := newStore(t), t.Context()
	calls := 0
	var last *spec.Changes
	db.OnChange = func(c *spec.Changes) { calls++; last = c }
	steps := []struct {
		do    func() error
		calls int
	}{
		{func() error { return db.Apply(ctx, declare(pipeline("p"))) }, 1},
		{func() error { return db.Apply(ctx, &spec.Changes{Files: []spec.FileState{{Path: "a"}}}) }, 1},
		{func() error { return db.SetOverride(ctx, "p", spec.StatusStopped) }, 2},
		{func() error { return db.SaveStates(ctx, []spec.State{spec.State{PipelineID: "p"}}) }, 2},
		{func() error { return db.Apply(ctx, withdraw("p", true)) }, 3},
		{func() error { return db.DeletePipeline(ctx, "p") }, 4},
	}
	for i, s := range steps {
		must(t, s.do())
		if calls != s.calls {
			t.Errorf("step %d: %d calls, want %d", i, calls, s.calls)
		}
	}
	if last != nil {
		t.Errorf("a deletion is reported as %+v", last)
	}
	changes := declare(pipeline("q"))
	must(t, db.Apply(ctx, changes))
	if last != changes {
		t.Errorf("applied %p, reported %p", changes, last)
	}
}

// TestConnectorStatesSince follows starts and clean-ups of connectors.
func TestConnectorStatesSince(t *testing.T) {
	db, ctx := newStore(t), t.Context()
	save := func(id string) {
		t.Helper()
		must(t, db.SaveConnectorState(ctx, &spec.ConnectorState{ID: id, PipelineID: "p"}))
	}
	since := func(revision int64, all bool, rows, gone []string) int64 {
		t.Helper()
		delta, err := db.ConnectorStatesSince(ctx, revision)
		must(t, err)
		var ids []string
		for _, c := range delta.Rows {
			ids = append(ids, c.ID)
		}
		if delta.All != all || !slices.Equal(ids, rows) || !slices.Equal(delta.Gone, gone) {
			t.Errorf("since %d: %+v, want %v and without %v", revision, delta, rows, gone)
		}
		return delta.Revision
	}
	save("p:a")
	first := since(0, true, []string{"p:a"}, nil)
	since(first, false, nil, nil)
	save("p:b")
	must(t, db.DeleteConnector(ctx, "p:a"))
	second := since(first, false, []string{"p:b"}, []string{"p:a"})
	since(second, false, nil, nil)
}

func TestOverride(t *testing.T) {
	db, ctx := newStore(t), t.Context()
	wantError(t, db.SetOverride(ctx, "p", spec.StatusStopped), spec.ErrNotFound, `"p"`)
	must(t, db.Apply(ctx, declare(pipeline("p"))))
	must(t, db.SetOverride(ctx, "p", spec.StatusStopped))
	if d, err := db.Get(ctx, "p"); err != nil || d.Want() != spec.StatusStopped {
		t.Errorf("%+v, %v", d, err)
	}
	must(t, db.SetOverride(ctx, "p", spec.StatusRunning))
	if d, err := db.Get(ctx, "p"); err != nil || d.Override != "" {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestFilesAndEvents(t *testing.T) {
	db, ctx := newStore(t), t.Context()
	must(t, db.Apply(ctx, &spec.Changes{Files: []spec.FileState{
		{Path: "b.yaml", Hash: "1"}, {Path: "a.yaml", Problems: []spec.Problem{{Line: 3, Message: "no"}}},
	}}))
	must(t, db.Apply(ctx, &spec.Changes{
		Forget: []string{"a.yaml"}, Files: []spec.FileState{{Path: "b.yaml", Hash: "2"}},
		Events: []spec.Event{{Reason: "One"}, {Reason: "Two", At: time.Unix(5, 0)}},
	}))
	files, err := db.FileStates(ctx)
	must(t, err)
	wantEqual(t, files, []spec.FileState{{Path: "b.yaml", Hash: "2"}})
	events, err := db.Events(ctx, 0, 10)
	must(t, err)
	if len(events) != 2 || events[0].At.IsZero() || events[1].Reason != "Two" || events[1].At.Unix() != 5 ||
		events[1].ID <= events[0].ID {
		t.Errorf("%+v", events)
	}
	later, err := db.Events(ctx, events[0].ID, 10)
	must(t, err)
	newest, err := db.Events(ctx, -1, 1)
	must(t, err)
	wantEqual(t, later, events[1:])
	wantEqual(t, newest, events[1:])
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	db, ctx := newStore(t), t.Context()
	for i := range 120 {
		must(t, db.Apply(ctx, with(func(p *spec.Pipeline) { p.Name = fmt.Sprint(i) })))
	}
	revisions, err := db.History(ctx, "p")
	must(t, err)
	if len(revisions) != 100 || revisions[0].Number != 21 || revisions[99].Spec.Name != "119" {
		t.Errorf("%d revisions from %d", len(revisions), revisions[0].Number)
	}
	_, err = db.Revision(ctx, "p", 20)
	wantError(t, err, spec.ErrNotFound)
	r, err := db.Revision(ctx, "p", 21)
	must(t, err)
	wantEqual(t, r, revisions[0])
	must(t, db.SaveStates(ctx, []spec.State{spec.State{PipelineID: "p"}}, make([]spec.Event, 10_050)...))
	events, err := db.Events(ctx, 0, 20_000)
	must(t, err)
	if len(events) != 10_000 || events[0].ID != 51 {
		t.Errorf("%d events from %d", len(events), events[0].ID)
	}
}

func TestDeletePipeline(t *testing.T) {
	db, ctx := newStore(t), t.Context()
	must(t, db.Apply(ctx, declare(pipeline("p"))))
	epoch, err := db.BeginRun(ctx, "p")
	must(t, err)
	save := func(seq int64) error {
		return db.SaveCheckpoints(ctx, []spec.Checkpoint{{ConnectorID: "p:src", PipelineID: "p",
			Position: []byte("pos"), Epoch: epoch, Sequence: seq}})
	}
	must(t, save(1))
	must(t, db.SaveStates(ctx, []spec.State{spec.State{PipelineID: "p"}}, spec.Event{Pipeline: "p"}))
	must(t, db.SaveConnectorState(ctx, &spec.ConnectorState{ID: "p:src", PipelineID: "p"}))
	if err := db.DeletePipeline(ctx, "p"); err == nil {
		t.Error("a declared pipeline was deleted")
	}
	must(t, db.Apply(ctx, withdraw("p", false)))
	if err := db.DeletePipeline(ctx, "p"); err == nil {
		t.Error("a pipeline with connectors was deleted")
	}
	must(t, db.DeleteConnector(ctx, "p:src"))
	if pos, err := db.Checkpoint(ctx, "p:src"); pos != nil || err != nil {
		t.Errorf("checkpoint of a forgotten connector: %v, %v", pos, err)
	}
	must(t, save(2))
	must(t, db.DeletePipeline(ctx, "p"))
	wantError(t, save(3), store.ErrFenced)
	if _, err := db.Get(ctx, "p"); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("after deletion: %v", err)
	}
	states, err := db.States(ctx)
	must(t, err)
	pos, err := db.Checkpoint(ctx, "p:src")
	must(t, err)
	events, err := db.Events(ctx, 0, 10)
	must(t, err)
	if len(states) != 0 || pos != nil || len(events) != 1 || actions(t, db, "p") != "declare withdraw" {
		t.Errorf("states %v, checkpoint %v, events %v", states, pos, events)
	}
	// Within a history, each generation is unique.
	must(t, db.Apply(ctx, declare(pipeline("p"), pipeline("q"))))
	again, err := db.Get(ctx, "p")
	must(t, err)
	other, err := db.Get(ctx, "q")
	must(t, err)
	if again.Generation != 2 || other.Generation != 1 {
		t.Errorf("generation %d of a pipeline that was deleted, %d of a new one; want 2 and 1", again.Generation,
			other.Generation)
	}
}

// TestConnectorsOfTwoPipelinesWithOneID declares two pipelines whose connectors would share a position: the second is
// refused.
func TestConnectorsOfTwoPipelinesWithOneID(t *testing.T) {
	db, ctx := newStore(t), t.Context()
	with := func(id, connector string) *spec.Changes {
		p := pipeline(id)
		p.Connectors[0].ID = connector
		return declare(p)
	}
	must(t, db.Apply(ctx, with("a", "b:c")))
	refused := func(err error, want string) {
		t.Helper()
		if clash := (*spec.SameIDError)(nil); !errors.As(err, &clash) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %s", err, want)
		}
	}
	refused(db.Apply(ctx, with("a:b", "c")),
		`connector "c" of pipeline "a:b" and connector "b:c" of pipeline "a" have the same full id "a:b:c"`)
	must(t, db.Apply(ctx, with("a:b", "d")))
	refused(db.Apply(ctx, with("a", "b:d")), `"a:b:d"`)
	must(t, db.Apply(ctx, with("a", "b:e")))
}
