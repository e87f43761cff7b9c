package store_test

import (
	"fmt"
	"testing"

	"github.com/conduit-agent/conduit/spec"
)

func TestDeclarationsSince(t *testing.T) {
	db, ctx := newStore(t), t.Context()
	var many []spec.Pipeline
	for i := range 2500 {
		many = append(many, pipeline(fmt.Sprintf("m%04d", i)))
	}
	several := declare(pipeline("q"), pipeline("p"))
	several.Withdraw = []spec.Withdraw{{ID: "r"}}
	var before int64
	steps := []struct {
		do   func() error
		want string // All, the rows, and the ids that are gone
	}{
		{func() error {
			return db.Apply(ctx, declare(pipeline("p"), pipeline("q"), pipeline("r")))
		}, "true [p q r] []"},
		{func() error { return nil }, "false [] []"},
		{func() error { return db.Apply(ctx, several) }, "false [p q r] []"},
		{func() error { return db.SetOverride(ctx, "q", spec.StatusStopped) }, "false [q] []"},
		{func() error { return db.DeletePipeline(ctx, "r") }, "false [] [r]"},
		{func() error { return db.Apply(ctx, &spec.Changes{Files: []spec.FileState{{Path: "a"}}}) }, "false [] []"},
		{func() error { db.Distrust(); return nil }, "true [p q] []"},
		{func() error { return db.Apply(ctx, withdraw("p", true)) }, "false [p] []"},
		{func() error { before = 0; return nil }, "true [p q] []"},
		{func() error { return db.Apply(ctx, declare(many[:900]...)) }, "false 900 []"},
		{func() error { return db.Apply(ctx, declare(many...)) }, "true 2502 []"},
		{func() error { return db.SetOverride(ctx, "q", "") }, "false [q] []"},
	}
	for i, s := range steps {
		must(t, s.do())
		d, err := db.DeclarationsSince(ctx, before)
		must(t, err)
		var ids []string
		for _, row := range d.Rows {
			ids = append(ids, row.Pipeline.ID)
		}
		got := fmt.Sprintf("%v %v %v", d.All, ids, d.Gone)
		if len(ids) > 9 {
			got = fmt.Sprintf("%v %d %v", d.All, len(ids), d.Gone)
		}
		if got != s.want {
			t.Errorf("step %d: %s, want %s", i, got, s.want)
		}
		if d.All {
			all, err := db.Declarations(ctx)
			must(t, err)
			var rows []spec.Declaration
			for _, row := range d.Rows {
				rows = append(rows, *row)
			}
			wantEqual(t, rows, all)
		}
		before = d.Revision
	}
}

// TestRaiseGeneration checks that the generation is raised for a version and its revision, not for earlier versions,
// and that later versions continue from it.
func TestRaiseGeneration(t *testing.T) {
	db, ctx := newStore(t), t.Context()
	wantError(t, db.RaiseGeneration(ctx, "p", 5), spec.ErrNotFound, `"p"`)
	first, second, third := pipeline("p"), pipeline("p"), pipeline("p")
	second.DeadLetterQueue.Plugin, third.DeadLetterQueue.Plugin = "second", "third"
	must(t, db.Apply(ctx, declare(first)))
	must(t, db.Apply(ctx, declare(second)))
	for _, least := range []int64{5, 3} { // it never decreases
		must(t, db.RaiseGeneration(ctx, "p", least))
	}
	db.Distrust() // read the file again
	must(t, db.Apply(ctx, declare(third)))
	revisions, err := db.History(ctx, "p")
	must(t, err)
	var got []int64
	for _, r := range revisions {
		got = append(got, r.Generation)
	}
	wantEqual(t, got, []int64{1, 5, 6})
	d, err := db.Get(ctx, "p")
	must(t, err)
	wantEqual(t, d.Generation, int64(6))
}
