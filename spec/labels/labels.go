// Package labels selects pipelines by their labels.
package labels

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Selector is what labels must be, all of it. The empty one selects everything.
type Selector []requirement

type requirement struct {
	key, value string
	present    bool // with any value
	not        bool
}

// Parse reads key=value, key!=value, key or !key, several separated by commas.
func Parse(text string) (Selector, error) {
	var s Selector
	for part := range strings.SplitSeq(text, ",") {
		r := requirement{}
		part = strings.TrimSpace(part)
		key, value, equals := strings.Cut(part, "=")
		switch {
		case equals:
			r.key, r.not = strings.CutSuffix(key, "!")
			r.value = strings.TrimPrefix(value, "=")
		default:
			r.present = true
			r.key, r.not = strings.CutPrefix(part, "!")
		}
		if r.key == "" || strings.ContainsAny(r.key+r.value, " =!") {
			return nil, fmt.Errorf("%q selects nothing: write key=value, key!=value, key or !key, several separated by commas", part)
		}
		s = append(s, r)
	}
	return s, nil
}

// Matches reports whether the labels are what s says.
func (s Selector) Matches(labels map[string]string) bool {
	for _, r := range s {
		value, ok := labels[r.key]
		if (ok && (r.present || value == r.value)) == r.not {
			return false
		}
	}
	return true
}

// String implements flag.Value.
func (s *Selector) String() string { return "" }

// Set adds what text requires, as Parse reads it.
func (s *Selector) Set(text string) error {
	more, err := Parse(text)
	*s = append(*s, more...)
	return err
}

// Text is labels as they are read, in the order of their keys: site=berlin, team=shop.
func Text(labels map[string]string) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, key+"="+labels[key])
	}
	return strings.Join(all, ", ")
}
