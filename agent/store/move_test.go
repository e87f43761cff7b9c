package store_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

func TestMoveCheckpoint(t *testing.T) {
	db, ctx := newStore(t), t.Context()
	d := &spec.Declaration{Pipeline: spec.Pipeline{ID: "p"}, Generation: 4}
	epoch, err := db.BeginRun(ctx, "p")
	if err != nil {
		t.Fatal(err)
	}
	if err := db.SaveCheckpoints(ctx, []spec.Checkpoint{position("p:a", epoch, 5)}); err != nil {
		t.Fatal(err)
	}
	move := func(before, to record.Position) error {
		return db.MoveCheckpoint(ctx, d, spec.Checkpoint{ConnectorID: "p:a", PipelineID: "p", Plugin: "file",
			Position: to}, before, spec.Event{Pipeline: "p", Reason: "PositionSet"})
	}
	steps := []struct {
		before, to, want string
		err              error
	}{
		{"pos-4", "pos-1", "pos-5", spec.ErrConflict},
		{"", "pos-1", "pos-5", spec.ErrConflict},
		{"pos-5", "pos-1", "pos-1", nil},
		{"pos-1", "", "", nil},
		{"pos-1", "pos-2", "", spec.ErrConflict},
		{"", "pos-2", "pos-2", nil},
	}
	bytes := func(text string) record.Position {
		if text == "" {
			return nil
		}
		return record.Position(text)
	}
	for i, s := range steps {
		if err := move(bytes(s.before), bytes(s.to)); !errors.Is(err, s.err) {
			t.Fatalf("step %d: %v, want %v", i, err, s.err)
		}
		if got, err := positionOf(db, "p:a"); err != nil || string(got) != s.want {
			t.Fatalf("step %d: position %q, %v, want %q", i, got, err, s.want)
		}
	}
	if err := db.SaveCheckpoints(ctx, []spec.Checkpoint{position("p:a", epoch, 6)}); !errors.Is(err, store.ErrFenced) {
		t.Errorf("a run that had begun before saves its position: %v", err)
	}
	if epoch, err = db.BeginRun(ctx, "p"); err != nil {
		t.Fatal(err)
	}
	if err := db.SaveCheckpoints(ctx, []spec.Checkpoint{position("p:a", epoch, 1)}); err != nil {
		t.Errorf("the next run cannot save its position: %v", err)
	}
	checkMoves(t, db)
}

// checkMoves checks that history and events contain three moves.
func checkMoves(t *testing.T, db *store.DB) {
	revisions, err := db.History(t.Context(), "p")
	var actions []string
	for _, r := range revisions {
		actions = append(actions, r.Action)
	}
	if got, want := strings.Join(actions,
		", "), "set position of p:a, reset position of p:a, set position of p:a"; err != nil || got != want ||
		revisions[0].Generation != 4 {
		t.Errorf("history %v, %v, want %s", revisions, err, want)
	}
	if events, err := db.Events(t.Context(), 0, 10); err != nil || len(events) != 3 {
		t.Errorf("events %v, %v, want three", events, err)
	}
}
