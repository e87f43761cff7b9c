package sdk

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// unknownMessage says that name is no parameter, and which one of p, or of what its
// patterns stand for, may be meant.
func unknownMessage(name string, p, instances Parameters) string {
	known := slices.AppendSeq(slices.Collect(maps.Keys(p)), maps.Keys(instances))
	known = slices.DeleteFunc(known, isPattern)
	slices.Sort(known)
	best := Closest(name, known)
	if best == "" {
		return "is not a setting of this connector"
	}
	return fmt.Sprintf("is not a setting of this connector, did you mean %q?", best)
}

// Closest returns the candidate that word may be a misspelling of, "" when none is close.
func Closest(word string, candidates []string) string {
	best, distance := "", len(word)/3+1
	for _, c := range candidates {
		if d := editDistance(strings.ToLower(word), strings.ToLower(c)); d < distance {
			best, distance = c, d
		}
	}
	return best
}

// editDistance counts the bytes to insert, delete or replace to make b from a.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
