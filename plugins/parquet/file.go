package parquet

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// decimalBytes is the size of a decimal with maxPrecision digits.
const decimalBytes = 16

// layout is the form of a file with certain columns.
type layout struct {
	schema *parquet.Schema
	leaves int
}

// rowsAtOnce is the number of rows that are held in the form of Parquet values.
const rowsAtOnce = 64

// Encode returns the file as one row group, compressed with gzip.
func (f *File) Encode() ([]byte, error) {
	t := f.table
	if t.layout == nil {
		columns := t.current.columns
		t.layout = &layout{parquet.NewSchema("schema", groupOf(columns.fields)), columns.leaves()}
	}
	var file bytes.Buffer
	w := parquet.NewWriter(&file, append(slices.Clip(options), t.layout.schema)...)
	s := shredder{leaves: make([][]parquet.Value, t.layout.leaves)}
	for rows := range slices.Chunk(f.rows, rowsAtOnce) {
		shredded := make([]parquet.Row, len(rows))
		for i, row := range rows {
			var err error
			if shredded[i], err = s.row(t.current.columns, row); err != nil {
				return nil, err
			}
		}
		if _, err := w.WriteRows(shredded); err != nil {
			return nil, fmt.Errorf("cannot encode a Parquet file: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("cannot encode a Parquet file: %w", err)
	}
	return file.Bytes(), nil
}

// node returns the schema of c. Every column is optional.
func node(c *column) parquet.Node {
	switch c.kind {
	case kindList:
		return parquet.Optional(parquet.List(node(c.items)))
	case kindMap:
		return parquet.Optional(parquet.Map(plain(parquet.String()), node(c.items)))
	case kindStruct:
		if len(c.fields) > 0 {
			return parquet.Optional(groupOf(c.fields))
		}
	}
	return parquet.Optional(plain(leaf(c)))
}

// plain gives a column the PLAIN encoding, because some readers know no other.
func plain(n parquet.Node) parquet.Node { return parquet.Encoded(n, &parquet.Plain) }

func leaf(c *column) parquet.Node {
	unit := parquet.Microsecond
	if c.nanos {
		unit = parquet.Nanosecond
	}
	switch c.kind {
	case kindBoolean:
		return parquet.Leaf(parquet.BooleanType)
	case kindInteger:
		return parquet.Leaf(parquet.Int64Type)
	case kindFloat:
		return parquet.Leaf(parquet.DoubleType)
	case kindText, kindDigits:
		return parquet.String()
	case kindJSON, kindStruct:
		return parquet.JSON()
	case kindBytes:
		return parquet.Leaf(parquet.ByteArrayType)
	case kindTimestamp:
		return parquet.TimestampAdjusted(unit, true)
	case kindDatetime:
		return parquet.TimestampAdjusted(unit, false)
	case kindDate:
		return parquet.Date()
	case kindTime:
		return parquet.TimeAdjusted(unit, false)
	case kindDecimal:
		return parquet.Decimal(c.scale, c.precision, parquet.FixedLenByteArrayType(decimalBytes))
	case kindUUID:
		return parquet.UUID()
	}
	return parquet.Leaf(nullType{parquet.Int32Type})
}

// nullType is the type of a column without values.
type nullType struct{ parquet.Type }

// LogicalType returns the type that every other type can replace.
func (nullType) LogicalType() *format.LogicalType {
	return &format.LogicalType{Value: new(format.NullType)}
}

// group is a group whose fields keep their order.
type group struct {
	parquet.Group
	fields []parquet.Field
}

// Fields returns the fields in order.
func (g group) Fields() []parquet.Field { return g.fields }

// GoType returns a type for no value: rows are made without reflection, and not every name can be one of Go.
func (group) GoType() reflect.Type { return reflect.TypeFor[struct{}]() }

func groupOf(fields []field) parquet.Node {
	var g group
	for _, f := range fields {
		g.fields = append(g.fields, member{node(f.column), f.name})
	}
	return g
}

// member is a field of a group.
type member struct {
	parquet.Node
	name string
}

// Name returns the name of the column.
func (m member) Name() string { return m.name }

// Value returns nothing: rows are made without reflection.
func (member) Value(reflect.Value) reflect.Value { return reflect.Value{} }

// shredder divides rows into the values of their columns.
type shredder struct {
	leaves [][]parquet.Value // values of the row by column
	at     int               // next column
	err    error
}

// row returns the values of a row of a table.
func (s *shredder) row(table *column, row map[string]any) (parquet.Row, error) {
	for i := range s.leaves {
		s.leaves[i] = s.leaves[i][:0]
	}
	s.at = 0
	for _, f := range table.fields {
		s.value(f.column, row[f.name], level{})
	}
	n := 0
	for _, values := range s.leaves {
		n += len(values)
	}
	values := make(parquet.Row, 0, n)
	for _, cells := range s.leaves {
		values = append(values, cells...)
	}
	return values, s.err
}

// level is the place of a value in nested lists.
type level struct {
	repetition int // level of the list in which the value is not the first; 0 if it is the first in all
	definition int // number of optional and repeated columns above the value that are not null or empty
	lists      int // number of lists above the value
}

// value appends v to the columns of c.
func (s *shredder) value(c *column, v any, l level) {
	if v == nil {
		s.null(c, l)
		return
	}
	l.definition++
	switch c.kind {
	case kindList:
		s.repeated(c, len(v.([]any)), l, func(i int, l level) { s.value(c.items, v.([]any)[i], l) })
	case kindMap:
		m := v.(map[string]any)
		keys := slices.Sorted(maps.Keys(m))
		s.repeated(c, len(keys), l, func(i int, l level) {
			s.leaf(parquet.ByteArrayValue([]byte(keys[i])), l)
			s.value(c.items, m[keys[i]], l)
		})
	case kindStruct:
		if len(c.fields) > 0 {
			m := v.(map[string]any)
			for _, f := range c.fields {
				s.value(f.column, m[f.name], l)
			}
			return
		}
		fallthrough
	default:
		value, err := scalar(c, v)
		if err != nil && s.err == nil {
			s.err = fmt.Errorf("cannot encode a Parquet file: %w", err)
		}
		s.leaf(value, l)
	}
}

// repeated appends n items of a list or a map.
func (s *shredder) repeated(c *column, n int, l level, item func(i int, l level)) {
	first := s.at
	if n == 0 {
		s.null(c, l)
		return
	}
	l.definition++
	l.lists++
	for i := range n {
		s.at = first
		item(i, l)
		l.repetition = l.lists
	}
}

func (s *shredder) leaf(v parquet.Value, l level) {
	s.leaves[s.at] = append(s.leaves[s.at], v.Level(l.repetition, l.definition, s.at))
	s.at++
}

// null appends a null to the columns of c.
func (s *shredder) null(c *column, l level) {
	for range c.leaves() {
		s.leaf(parquet.Value{}, l)
	}
}
