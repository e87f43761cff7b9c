// Package sorting sorts slices of structs with a single copy of the algorithm. The compiler generates a copy of
// slices.SortFunc for each element type: 25 KB with its tables.
package sorting

import "sort"

// By sorts like slices.SortFunc, several times slower. It is for short or rarely sorted lists.
func By[T any](all []T, compare func(a, b T) int) {
	sort.Slice(all, func(i, j int) bool { return compare(all[i], all[j]) < 0 })
}

// StableBy sorts like slices.SortStableFunc, and keeps the order of equal elements.
func StableBy[T any](all []T, compare func(a, b T) int) {
	sort.SliceStable(all, func(i, j int) bool { return compare(all[i], all[j]) < 0 })
}
