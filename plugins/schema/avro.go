package schema

import (
	"fmt"
	"slices"
	"strconv"
)

// Infer returns the Avro schema of the object m as canonical text.
func Infer(m map[string]any) (string, error) {
	s, err := ShapeOf(m)
	if err != nil {
		return "", fmt.Errorf("cannot infer an Avro schema: %w", err)
	}
	return s.Avro(), nil
}

// Avro returns the Avro schema of s: a record named "record" with its fields sorted by name. Nested records are named
// by their path. Equal shapes have equal texts.
func (s *Shape) Avro() string {
	var w avroWriter
	w.record(&s.root, "record")
	return string(w.text)
}

type avroWriter struct {
	text []byte
	used []string // names of records
}

func (w *avroWriter) print(s string) { w.text = append(w.text, s...) }

func (w *avroWriter) record(n *node, name string) {
	for slices.Contains(w.used, name) {
		name += "_"
	}
	w.used = append(w.used, name)
	w.print(`{"name":` + strconv.Quote(name) + `,"type":"record","fields":[`)
	for i := range n.fields {
		f := &n.fields[i]
		if i > 0 {
			w.print(",")
		}
		w.print(`{"name":` + strconv.Quote(f.name) + `,"type":`)
		w.value(&f.node, f.optional, name+"."+f.name)
		if f.optional {
			w.print(`,"default":null`)
		}
		w.print("}")
	}
	w.print("]}")
}

// value writes one type, or the union of all observed types.
func (w *avroWriter) value(n *node, optional bool, path string) {
	kinds := n.kinds
	if optional || kinds == 0 {
		kinds |= kindNull
	}
	if kinds&kindLong != 0 {
		kinds &^= kindDuration // a union has at most one long
	}
	if kinds&kindNumber != 0 {
		kinds &^= kindString // and one string
	}
	union := kinds&(kinds-1) != 0
	if union {
		w.print("[")
	}
	for k, first := kindNull, true; k <= kindObject; k <<= 1 {
		if kinds&k == 0 {
			continue
		}
		if !first {
			w.print(",")
		}
		first = false
		w.kind(n, k, path)
	}
	if union {
		w.print("]")
	}
}

func (w *avroWriter) kind(n *node, k kind, path string) {
	switch k {
	case kindNull:
		w.print(`"null"`)
	case kindBool:
		w.print(`"boolean"`)
	case kindLong:
		w.print(`"long"`)
	case kindTime:
		w.print(`{"type":"long","logicalType":"timestamp-micros"}`)
	case kindDuration:
		w.print(`{"type":"long","logicalType":"time-micros"}`)
	case kindDouble:
		w.print(`"double"`)
	case kindNumber:
		w.print(`{"type":"string","logicalType":"json"}`)
	case kindString:
		w.print(`"string"`)
	case kindBytes:
		w.print(`"bytes"`)
	case kindArray:
		w.print(`{"type":"array","items":`)
		w.value(n.items, false, path+".item")
		w.print("}")
	case kindObject:
		w.record(n, path)
	}
}
