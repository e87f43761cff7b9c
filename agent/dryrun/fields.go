package dryrun

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/conduit-agent/conduit/plugins/record"
)

// Fields returns the content of r as text, by reference: .Payload.After.id is 7. Raw data is a quoted text, as in the
// readable form of a record.
func Fields(r *record.Record) map[string]string {
	fields := map[string]string{".Operation": r.Operation.String()}
	if len(r.Position) > 0 {
		fields[".Position"] = quote(r.Position)
	}
	for _, f := range r.Metadata {
		fields[name(".Metadata", f.Key)] = fmt.Sprintf("%q", f.Value)
	}
	dataFields(fields, ".Key", r.Key)
	dataFields(fields, ".Payload.Before", r.Before)
	dataFields(fields, ".Payload.After", r.After)
	return fields
}

func quote(b []byte) string { return strconv.Quote(record.ReadableBytes(b)) }

func dataFields(fields map[string]string, at string, d record.Data) {
	if b, ok := d.Raw(); ok {
		fields[at] = quote(b)
	}
	if m, ok := d.Structured(); ok {
		valueFields(fields, at, m)
	}
}

func valueFields(fields map[string]string, at string, v any) {
	if m, ok := v.(map[string]any); ok && len(m) > 0 {
		for k, inner := range m {
			valueFields(fields, name(at, k), inner)
		}
		return
	}
	fields[at] = text(v)
}

// text returns v as JSON. Equal numbers have equal texts.
func text(v any) string {
	b, err := record.AppendValue(nil, v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

func name(at, key string) string {
	plain := key != "" && (key[0] < '0' || key[0] > '9') && !strings.ContainsFunc(key, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
	if plain {
		return at + "." + key
	}
	return at + `["` + key + `"]`
}

// Diff returns the lines that distinguish two records, sorted by field: - for fields only in before, + for fields only
// in after.
func Diff(before, after map[string]string) []string {
	names := map[string]bool{}
	for _, m := range []map[string]string{before, after} {
		for k := range m {
			names[k] = true
		}
	}
	var lines []string
	for _, k := range slices.Sorted(maps.Keys(names)) {
		a, inA := before[k]
		b, inB := after[k]
		if inA && inB && a == b {
			continue
		}
		if inA {
			lines = append(lines, "- "+k+": "+a)
		}
		if inB {
			lines = append(lines, "+ "+k+": "+b)
		}
	}
	return lines
}
