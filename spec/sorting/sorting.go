// Package sorting sorts slices of structs by one copy of the algorithm. The compiler makes a copy of
// slices.SortFunc for each type of elements: 25 KB with the tables that belong to it.
package sorting

import "sort"

// By sorts as slices.SortFunc does, several times slower. It is for lists that are short or rarely sorted.
func By[T any](all []T, compare func(a, b T) int) {
	sort.Slice(all, func(i, j int) bool { return compare(all[i], all[j]) < 0 })
}

// StableBy sorts as slices.SortStableFunc does, and leaves equal elements in their order.
func StableBy[T any](all []T, compare func(a, b T) int) {
	sort.SliceStable(all, func(i, j int) bool { return compare(all[i], all[j]) < 0 })
}
