package parquet

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"
)

// kind is the type of a column.
type kind uint8

const (
	kindUnknown kind = iota // all values are null so far
	kindBoolean
	kindInteger
	kindFloat
	kindText
	kindDigits // text of a decimal that has too many digits for kindDecimal
	kindJSON
	kindBytes
	kindTimestamp // with a time zone
	kindDatetime  // without a time zone
	kindDate
	kindTime // of a day
	kindDecimal
	kindUUID
	kindList
	kindMap
	kindStruct // JSON if it has no fields
)

// column is a column, or a group of columns. It is immutable.
type column struct {
	kind      kind
	nanos     bool // the unit of times is a nanosecond, not a microsecond
	precision int  // digits of a decimal
	scale     int  // decimal places of a decimal
	fields    []field
	index     map[string]int // of fields, by name
	width     int            // Parquet columns of fields
	items     *column        // items of a list, or values of a map
}

type field struct {
	name string
	*column
}

// unknown is a column without values.
var unknown = &column{}

// structOf returns a column for objects.
func structOf(fields []field) *column {
	c := &column{kind: kindStruct, fields: fields, index: make(map[string]int, len(fields))}
	for i, f := range fields {
		c.index[f.name] = i
		c.width += f.leaves()
	}
	return c
}

// leaves returns the number of Parquet columns of c.
func (c *column) leaves() int {
	switch c.kind {
	case kindList:
		return c.items.leaves()
	case kindMap:
		return 1 + c.items.leaves()
	case kindStruct:
		return max(c.width, 1)
	}
	return 1
}

// maxDepth bounds the nesting of columns. The library numbers levels with seven bits, and a list has three.
const maxDepth = 32

// natural returns the column for a first value.
func natural(v any) *column {
	switch v.(type) {
	case bool:
		return &column{kind: kindBoolean}
	case string:
		return &column{kind: kindText}
	case []byte:
		return &column{kind: kindBytes}
	case time.Time:
		return &column{kind: kindTimestamp}
	case time.Duration:
		return &column{kind: kindTime}
	case []any:
		return &column{kind: kindList, items: unknown}
	case map[string]any:
		return structOf(nil)
	case float32, float64:
		return &column{kind: kindFloat}
	}
	for _, k := range []kind{kindInteger, kindFloat} {
		c := &column{kind: k}
		if _, err := scalar(c, v); err == nil {
			return c
		}
	}
	return &column{kind: kindJSON}
}

// widening widens columns for the values of a record.
type widening struct {
	converted bool // an earlier value needs another type than before
	depth     int
}

// column returns c if v fits, or a copy of c that also accepts v.
func (w *widening) column(c *column, v any) (*column, error) {
	if v == nil {
		return c, nil
	}
	if c.kind == kindUnknown {
		c = natural(v)
	}
	switch v := v.(type) {
	case map[string]any:
		switch c.kind {
		case kindStruct:
			return w.nested(func() (*column, error) { return w.object(c, v) })
		case kindMap:
			return w.nested(func() (*column, error) { return w.values(c, v) })
		}
	case []any:
		if c.kind == kindList {
			return w.nested(func() (*column, error) { return w.list(c, v) })
		}
	}
	_, err := scalar(c, v)
	if err == nil {
		return c, nil
	}
	if wider := wider(c, v); wider != nil {
		if _, failed := scalar(wider, v); failed == nil {
			w.converted = true
			return wider, nil
		}
	}
	return nil, err
}

// wider returns the column that replaces c for a value that does not fit, or nil.
func wider(c *column, v any) *column {
	switch c.kind {
	case kindInteger:
		return &column{kind: kindFloat}
	case kindTimestamp, kindDatetime, kindTime:
		if hasNanos(v) && !c.nanos {
			return &column{kind: c.kind, nanos: true}
		}
	}
	return nil
}

var errDepth = fmt.Errorf("the value is nested deeper than %d levels", maxDepth)

func (w *widening) nested(f func() (*column, error)) (*column, error) {
	if w.depth++; w.depth > maxDepth {
		return nil, errDepth
	}
	defer func() { w.depth-- }()
	return f()
}

// object adds the values of m to the columns of a struct. New fields follow the known ones.
func (w *widening) object(c *column, m map[string]any) (*column, error) {
	var fields []field // nil: those of c
	var added []string
	for name, v := range m {
		i, ok := c.index[name]
		if !ok {
			added = append(added, name)
			continue
		}
		next, err := w.column(c.fields[i].column, v)
		if err != nil {
			return nil, within(name, err)
		}
		if next != c.fields[i].column {
			if fields == nil {
				fields = slices.Clone(c.fields)
			}
			fields[i].column = next
		}
	}
	if fields == nil && added == nil {
		return c, nil
	}
	if fields == nil {
		fields = slices.Clone(c.fields)
	}
	slices.Sort(added)
	for _, name := range added {
		if name == "" || !utf8.ValidString(name) {
			return nil, fmt.Errorf("%q cannot be the name of a column", name)
		}
		next, err := w.column(unknown, m[name])
		if err != nil {
			return nil, within(name, err)
		}
		fields = append(fields, field{name, next})
	}
	return structOf(fields), nil
}

func (w *widening) list(c *column, items []any) (*column, error) {
	next := c.items
	var err error
	for _, v := range items {
		if next, err = w.column(next, v); err != nil {
			return nil, within("[]", err)
		}
	}
	if next == c.items {
		return c, nil
	}
	return &column{kind: kindList, items: next}, nil
}

func (w *widening) values(c *column, m map[string]any) (*column, error) {
	next := c.items
	var err error
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if !utf8.ValidString(name) {
			return nil, fmt.Errorf("%q cannot be a key of a map", name)
		}
		if next, err = w.column(next, m[name]); err != nil {
			return nil, within("{}", err)
		}
	}
	if next == c.items {
		return c, nil
	}
	return &column{kind: kindMap, items: next}, nil
}

// merge returns a column that accepts the values of c and of d, the column of a schema: c if it does. If there is none,
// it returns d, because a schema decides the type.
func (w *widening) merge(c, d *column) *column {
	switch {
	case d.kind == kindUnknown:
		return c
	case c.kind == kindUnknown:
		return d
	case c.kind == kindFloat && d.kind == kindInteger:
		return c
	case c.kind != d.kind:
		w.converted = true
		return d
	}
	next := *c
	switch c.kind {
	case kindTimestamp, kindDatetime, kindTime:
		next.nanos = c.nanos || d.nanos
	case kindDecimal:
		next.scale = max(c.scale, d.scale)
		next.precision = next.scale + max(c.precision-c.scale, d.precision-d.scale)
		if next.precision > maxPrecision {
			next = column{kind: kindDigits}
		}
	case kindList, kindMap:
		if next.items = w.merge(c.items, d.items); next.items == c.items {
			return c
		}
		return &next
	case kindStruct:
		return w.mergeFields(c, d)
	}
	if next.kind == c.kind && next.nanos == c.nanos && next.precision == c.precision && next.scale == c.scale {
		return c
	}
	w.converted = true
	return &next
}

func (w *widening) mergeFields(c, d *column) *column {
	fields, changed := slices.Clone(c.fields), false
	for _, f := range d.fields {
		i, known := c.index[f.name]
		if !known {
			fields, changed = append(fields, f), true
			continue
		}
		next := w.merge(fields[i].column, f.column)
		changed = changed || next != fields[i].column
		fields[i].column = next
	}
	if !changed {
		return c
	}
	return structOf(fields)
}

// located is an error about a column.
type located struct {
	path string
	err  error
}

func (l located) Error() string { return fmt.Sprintf("cannot write column %s: %v", l.path, l.err) }
func (l located) Unwrap() error { return l.err }

// within adds the name of a column to an error.
func within(name string, err error) error {
	var l located
	if !errors.As(err, &l) {
		return located{name, err}
	}
	if l.path[0] != '[' && l.path[0] != '{' {
		name += "."
	}
	return located{name + l.path, l.err}
}
