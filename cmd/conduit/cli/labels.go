package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// LabelSelector selects the pipelines with labels that meet all requirements. The empty selector selects every
// pipeline.
type LabelSelector []labelRequirement

type labelRequirement struct {
	key, value string
	present    bool // with any value
	not        bool
}

// ParseLabels reads key=value, key!=value, key or !key, several separated by commas.
func ParseLabels(text string) (LabelSelector, error) {
	var s LabelSelector
	for part := range strings.SplitSeq(text, ",") {
		r := labelRequirement{}
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
			return nil, fmt.Errorf("%q selects nothing: write key=value, key!=value, key or !key, several separated "+
				"by commas", part)
		}
		s = append(s, r)
	}
	return s, nil
}

// Matches reports whether the labels meet all requirements.
func (s LabelSelector) Matches(labels map[string]string) bool {
	for _, r := range s {
		value, ok := labels[r.key]
		if (ok && (r.present || value == r.value)) == r.not {
			return false
		}
	}
	return true
}

// String implements flag.Value.
func (s *LabelSelector) String() string { return "" }

// Set adds the requirements in text, in the format of ParseLabels.
func (s *LabelSelector) Set(text string) error {
	more, err := ParseLabels(text)
	*s = append(*s, more...)
	return err
}

// LabelText formats labels in the order of their keys: site=berlin, team=shop.
func LabelText(labels map[string]string) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, key+"="+labels[key])
	}
	return strings.Join(all, ", ")
}
