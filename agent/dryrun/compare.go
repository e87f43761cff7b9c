package dryrun

import (
	"fmt"
	"maps"
	"slices"

	"github.com/conduit-agent/conduit/plugins/record"
)

const position = ".Position"

// diffAll compares two lists of records. It compares positions only if the expected record has one.
func diffAll(want, got []record.Record) []string {
	var lines []string
	for i := range max(len(want), len(got)) {
		var a, b map[string]string
		if i < len(want) {
			a = Fields(&want[i])
		}
		if i < len(got) {
			b = Fields(&got[i])
			if _, ok := a[position]; !ok {
				delete(b, position)
			}
		}
		if diff := Diff(a, b); len(diff) > 0 {
			lines = append(lines, fmt.Sprintf("  record %d:", i+1))
			lines = append(lines, diff...)
		}
	}
	return lines
}

// fields returns the fields that a partial record specifies.
func (t Record) fields() map[string]string {
	r, _ := t.record(0) // checked when it was parsed
	fields := Fields(&r)
	if t.Position == "" {
		delete(fields, position)
	}
	if t.Operation == "" {
		delete(fields, ".Operation")
	}
	return fields
}

// firstMissing returns the index of the first partial record that has no match after the match of the partial record
// before it, or -1 if all have matches.
func firstMissing(want []Record, got []record.Record) int {
	at := 0
	for i, w := range want {
		fields := w.fields()
		for at < len(got) && !contains(Fields(&got[at]), fields) {
			at++
		}
		if at++; at > len(got) {
			return i
		}
	}
	return -1
}

func contains(have, want map[string]string) bool {
	for k, v := range want {
		if have[k] != v {
			return false
		}
	}
	return true
}

func asLines(mark string, fields map[string]string) []string {
	var lines []string
	for _, k := range slices.Sorted(maps.Keys(fields)) {
		lines = append(lines, mark+" "+k+": "+fields[k])
	}
	return lines
}

func gotLines(got []record.Record) []string {
	var lines []string
	for i := range got {
		fields := Fields(&got[i])
		delete(fields, position)
		lines = append(lines, fmt.Sprintf("  record %d:", i+1))
		lines = append(lines, asLines("+", fields)...)
	}
	return lines
}
