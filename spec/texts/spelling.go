package texts

import (
	"slices"
	"strings"
)

// maxCompared is the maximum length of compared words in bytes: the cost grows with the product of the lengths.
const maxCompared = 64

// Closest returns the candidate that word was most likely meant to be: among the candidates with the least edit
// distance, the first with the longest common prefix. It returns "" when none is close enough, that is within a third
// of the length of word. Upper and lower case do not count, and word itself is never the answer.
func Closest(word string, candidates []string) string {
	if len(word) > maxCompared {
		return ""
	}
	best, least, longest := "", 1+max(1, len(word)/3), 0
	for _, c := range candidates {
		if len(c) > maxCompared || c == word {
			continue
		}
		a, b := strings.ToLower(word), strings.ToLower(c)
		if d, n := distance(a, b), common(a, b); d < least || best != "" && d == least && n > longest {
			best, least, longest = c, d, n
		}
	}
	return best
}

// common returns the length of the common prefix of a and b in bytes.
func common(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// Hint returns the candidate closest to word as a clause to end a message with, such as
// `; did you mean "status"?`, or "" when none is close.
func Hint(word string, candidates []string) string {
	if c := Closest(word, candidates); c != "" {
		return `; did you mean "` + c + `"?`
	}
	return ""
}

// distance returns the optimal string alignment distance of a and b: the number of bytes to insert, delete, replace or
// swap with their neighbor to turn a into b.
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
