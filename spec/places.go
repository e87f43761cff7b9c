package spec

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/spec/yamldoc"
)

// Places are the places of a pipeline's values in its file. They are kept as text with a line for each value, which
// takes less memory than a map and is stored unchanged.
type Places string

// PlacesOf returns the places of marks, by JSON pointer within the pipeline
// ("/connectors/0/settings/rate").
func PlacesOf(marks map[string]yamldoc.Mark) Places {
	var b strings.Builder
	for _, pointer := range slices.Sorted(maps.Keys(marks)) {
		if !strings.ContainsAny(pointer, "\t\n") { // otherwise the place of the surrounding value is used
			fmt.Fprintf(&b, "\n%s\t%d:%d", pointer, marks[pointer].Line, marks[pointer].Column)
		}
	}
	return Places(b.String())
}

// Mark returns the place of the value at a JSON pointer, false if the file does not contain it.
func (p Places) Mark(pointer string) (m yamldoc.Mark, ok bool) {
	_, found, ok := strings.Cut(string(p), "\n"+pointer+"\t")
	if !ok {
		return yamldoc.Mark{}, false
	}
	_, err := fmt.Sscanf(found, "%d:%d", &m.Line, &m.Column)
	return m, err == nil
}

// Closest returns the place of the value at a JSON pointer, or of the closest one around it. It is zero when no place
// is known.
func (p Places) Closest(pointer string) yamldoc.Mark {
	for {
		if m, ok := p.Mark(pointer); ok || pointer == "" {
			return m
		}
		pointer = pointer[:max(strings.LastIndexByte(pointer, '/'), 0)]
	}
}
