package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Shape is the structure of objects: the names of their fields and the kinds of values observed in each. A Shape is
// immutable. The zero Shape has no fields.
//
// Integers map to long, floats to double, numbers that neither can represent to text with the logical type json, times
// to long with the logical type timestamp-micros, durations to long with time-micros, nil to a union with null, and an
// object to a record. If a field has both durations and integers, the durations are nanoseconds.
type Shape struct {
	root node
}

// node describes the values observed in one place.
type node struct {
	kinds  kind
	fields []field // of objects, sorted by name
	items  *node   // of arrays
}

type field struct {
	name     string
	optional bool // some objects lack it
	node     node
}

// kind is a set of kinds of values.
type kind uint16

const (
	kindNull kind = 1 << iota
	kindBool
	kindLong
	kindTime
	kindDuration
	kindDouble
	kindNumber // neither a long nor a double can represent it
	kindString
	kindBytes
	kindArray
	kindObject
)

func kindOf(v any) kind {
	switch v.(type) {
	case nil:
		return kindNull
	case string:
		return kindString
	case int, int64, int32, int16, int8, uint, uint64, uint32, uint16, uint8:
		return kindLong
	case json.Number:
		return kindNumber
	case bool:
		return kindBool
	case float64, float32:
		return kindDouble
	case time.Time:
		return kindTime
	case time.Duration:
		return kindDuration
	case []byte:
		return kindBytes
	case []any:
		return kindArray
	case map[string]any:
		return kindObject
	}
	return 0
}

// ShapeOf returns the shape of the object m. It fails if Avro cannot describe m: if a field name is not an Avro name,
// or a record cannot hold a value.
func ShapeOf(m map[string]any) (*Shape, error) {
	return new(Shape).With(m)
}

// Fits reports whether m can be encoded with the schema of s. It allocates nothing.
func (s *Shape) Fits(m map[string]any) bool {
	return s.root.kinds != 0 && s.root.fitsObject(m)
}

func (n *node) fitsObject(m map[string]any) bool {
	seen := 0
	for i := range n.fields {
		f := &n.fields[i]
		v, ok := m[f.name]
		if !ok {
			if !f.optional {
				return false
			}
			continue
		}
		seen++
		if !f.node.fits(v) {
			return false
		}
	}
	return seen == len(m)
}

func (n *node) fits(v any) bool {
	k := kindOf(v)
	if n.kinds&k == 0 {
		return false
	}
	switch k {
	case kindObject:
		return n.fitsObject(v.(map[string]any))
	case kindArray:
		for _, item := range v.([]any) {
			if !n.items.fits(item) {
				return false
			}
		}
	}
	return true
}

// SameFields reports whether m has the fields of s, whatever their values are.
func (s *Shape) SameFields(m map[string]any) bool { return s.root.sameFields(m) }

func (n *node) sameFields(m map[string]any) bool {
	seen := 0
	for i := range n.fields {
		f := &n.fields[i]
		v, ok := m[f.name]
		if !ok && !f.optional {
			return false
		}
		if ok {
			seen++
		}
		if sub, ok := v.(map[string]any); ok && f.node.kinds&kindObject != 0 && !f.node.sameFields(sub) {
			return false
		}
	}
	return seen == len(m)
}

// With returns a shape that fits m and all objects that s fits. A field that is missing in m or in s becomes optional;
// a record without it is encoded with a null.
func (s *Shape) With(m map[string]any) (*Shape, error) {
	out := &Shape{root: s.root.clone()}
	if err := out.root.add(m, 0); err != nil {
		return nil, err
	}
	return out, nil
}

func (n *node) clone() node {
	c := node{kinds: n.kinds, fields: slices.Clone(n.fields)}
	for i := range c.fields {
		c.fields[i].node = n.fields[i].node.clone()
	}
	if n.items != nil {
		items := n.items.clone()
		c.items = &items
	}
	return c
}

func (n *node) add(v any, depth int) error {
	if depth > maxDepth {
		return errTooDeep
	}
	k := kindOf(v)
	if k == 0 {
		return fmt.Errorf("a record cannot contain a %T", v)
	}
	first := n.kinds&k == 0
	n.kinds |= k
	if n.kinds&kindTime != 0 && n.kinds&(kindLong|kindDuration) != 0 {
		return errors.New("a field has both times and integers")
	}
	switch k {
	case kindObject:
		return n.addObject(v.(map[string]any), first, depth)
	case kindArray:
		return n.addArray(v.([]any), depth)
	}
	return nil
}

func (n *node) addArray(items []any, depth int) error {
	if n.items == nil {
		n.items = &node{}
	}
	for i, item := range items {
		if err := n.items.add(item, depth+1); err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return nil
}

func (n *node) addObject(m map[string]any, first bool, depth int) error {
	for i := range n.fields {
		if _, ok := m[n.fields[i].name]; !ok {
			n.fields[i].optional = true
		}
	}
	for name, v := range m {
		if !isName(name) {
			return fmt.Errorf("%q is not an Avro name: use letters, digits and '_', and begin with a letter or '_'",
				name)
		}
		i, found := slices.BinarySearchFunc(n.fields, name, func(f field, name string) int {
			return strings.Compare(f.name, name)
		})
		if !found {
			n.fields = slices.Insert(n.fields, i, field{name: name, optional: !first})
		}
		if err := n.fields[i].node.add(v, depth+1); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func isName(s string) bool {
	for i := range len(s) {
		c := s[i] | 0x20
		if letter := c >= 'a' && c <= 'z' || s[i] == '_'; !letter && (i == 0 || s[i] < '0' || s[i] > '9') {
			return false
		}
	}
	return s != ""
}
