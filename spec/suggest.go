package spec

import (
	"slices"
	"strings"
)

// Suggest returns the candidate that word most likely was meant to be, or "" if none
// is close. Letter case does not count.
func Suggest(word string, candidates []string) string {
	if len(word) > 64 {
		return ""
	}
	best, least := "", 1+max(1, len(word)/3)
	for _, c := range candidates {
		if len(c) > 64 || c == word {
			continue
		}
		if d := distance(strings.ToLower(word), strings.ToLower(c)); d < least {
			best, least = c, d
		}
	}
	return best
}

// didYouMean is a sentence with the suggestion for word, or "".
func didYouMean(word string, candidates []string) string {
	if s := Suggest(word, candidates); s != "" {
		return "; did you mean \"" + s + "\"?"
	}
	return ""
}

// distance counts the bytes to insert, delete, replace or swap with their neighbour to
// make a into b.
func distance(a, b string) int {
	before, last := []int(nil), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := slices.Clone(last)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
