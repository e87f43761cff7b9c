package spec_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/conduit-agent/conduit/spec/sorting"
)

// TestSorts sorts as package slices does.
func TestSorts(t *testing.T) {
	type item struct{ key, index int }
	byKey := func(a, b item) int { return cmp.Compare(a.key, b.key) }
	byAll := func(a, b item) int { return cmp.Or(byKey(a, b), cmp.Compare(a.index, b.index)) }
	for n := range 100 {
		all := make([]item, n)
		for i := range all {
			all[i] = item{rand.IntN(10), i}
		}
		want := slices.Clone(all)
		slices.SortStableFunc(want, byKey)
		stable := slices.Clone(all)
		sorting.StableBy(stable, byKey)
		sorting.By(all, byAll)
		if !slices.Equal(stable, want) || !slices.Equal(all, want) {
			t.Fatalf("got %v and %v, want %v", stable, all, want)
		}
	}
}
