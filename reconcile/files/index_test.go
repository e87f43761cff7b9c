package files_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/conduit-agent/conduit/reconcile/files"
	"github.com/conduit-agent/conduit/spec"
)

// Files decides about changes as if it compared everything, whatever happens to files and, behind its back, to desired
// state.
func TestFilesDecideAsIfAboutEverything(t *testing.T) {
	ids := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
	paths := rapid.SampledFrom([]string{"v", "w", "x", "y", "z"})
	words := rapid.Custom(func(t *rapid.T) string {
		switch rapid.IntRange(0, 7).Draw(t, "word") {
		case 0:
			return "!" + ids.Draw(t, "id")
		case 1:
			return "?"
		default:
			return ids.Draw(t, "id") + ":" + rapid.SampledFrom([]string{"1", "2"}).Draw(t, "version")
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		store, content := newMemory(), map[string]string{}
		r := &files.Reconciler{Store: store, Parse: parse}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			id, path := ids.Draw(t, "id"), paths.Draw(t, "path")
			var fail error
			d, declared := store.declaration(id)
			switch op := rapid.IntRange(0, 10).Draw(t, "op"); {
			case op < 5:
				content[path] = "=" + strings.Join(rapid.SliceOfNDistinct(words, 0, 3, func(w string) string {
					return strings.Trim(w, "!:12")
				}).Draw(t, "words"), " ")
			case op == 5:
				delete(content, path)
			case op == 6:
				content[path] = "!"
			case op == 7:
				store.declare(pipeline(id, "3"))
			case op == 8 && declared && d.Withdrawn.IsZero():
				store.withdraw(id, rapid.Bool().Draw(t, "purge"))
			case op == 9 && declared && !d.Withdrawn.IsZero():
				_ = store.DeletePipeline(context.Background(), id)
			case op == 10 && declared:
				store.update(id, func(d *spec.Declaration) {
					d.Owner = spec.Owner{Kind: spec.OwnerFile, Path: path, Line: 1}
				})
			}
			if rapid.IntRange(0, 4).Draw(t, "fail") == 0 {
				fail = errBroken
			}
			expectSame(t, store, r, content, fail)
		}
	})
}

// expectSame makes files take content and fails t unless its decisions equal the decisions about everything. fail is
// the error of the store.
func expectSame(t *rapid.T, store *memory, r *files.Reconciler, content map[string]string, fail error) {
	var parts []string
	for _, path := range slices.Sorted(maps.Keys(content)) {
		parts = append(parts, path+content[path])
	}
	snap := dir(strings.Join(parts, "|"))
	var seen []files.Scanned
	for _, f := range snap.Files {
		s := files.Scanned{Path: f.Path, Hash: f.Hash, Err: f.Err}
		if f.Err == nil {
			s.File = parse(f.Path, f.Data)
		}
		seen = append(seen, s)
	}
	declared, _ := values(store, store.declared)
	known, _ := values(store, store.files)
	want := files.Decide(seen, declared, known, time.Now())
	got := &spec.Changes{}
	store.onApply = func(c *spec.Changes) { got = c; store.fail = fail }
	_ = r.Take(t.Context(), snap)
	store.onApply, store.fail = nil, nil
	if len(r.Status().Retained) > 0 {
		want = &spec.Changes{}
	}
	if diff := cmp.Diff(plainly(want), plainly(got)); diff != "" {
		t.Fatalf("of %q\n%s", parts, diff)
	}
}

// plainly returns the text of changes without the times.
func plainly(c *spec.Changes) []string {
	var all []string
	for _, d := range c.Declare {
		all = append(all, fmt.Sprintf("declare %+v", d))
	}
	for _, w := range c.Withdraw {
		all = append(all, fmt.Sprintf("withdraw %+v", w))
	}
	for _, f := range c.Files {
		f.SeenAt = time.Time{}
		all = append(all, fmt.Sprintf("file %+v", f))
	}
	for _, path := range c.Forget {
		all = append(all, "forget "+path)
	}
	for _, e := range c.Events {
		all = append(all, fmt.Sprintf("event %+v", e))
	}
	return all
}
