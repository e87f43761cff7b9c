package parquet

import (
	"errors"
	"fmt"
	"strings"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
)

// Columns selects the columns of a file in addition to those of the payload.
type Columns struct {
	Operation, Key, Position, Metadata bool
}

// Names of the additional columns.
const (
	nameOperation = "conduit_operation"
	nameKey       = "conduit_key"
	namePosition  = "conduit_position"
	nameMetadata  = "conduit_metadata"
)

// Schemas are the schemas of a record. A nil schema is none.
type Schemas struct{ Payload, Key *schema.Codec }

// Table is a sequence of files whose columns are the fields of payloads. It remembers the columns, which become wider
// when a record needs it. A Table is not safe for concurrent use.
type Table struct {
	extra     Columns
	current   state
	committed state   // to return to
	layout    *layout // of the current columns; nil if it is not made yet
	declared  map[*schema.Codec]*column
}

// state is the memory of a table.
type state struct {
	columns *column // a struct: the additional columns, then those of the payload
	schemas Schemas // of the last record; the columns include theirs
}

// NewTable returns a table without columns for payloads.
func NewTable(extra Columns) *Table {
	var fields []field
	if extra.Operation {
		fields = append(fields, field{nameOperation, &column{kind: kindText}})
	}
	if extra.Key {
		fields = append(fields, field{nameKey, unknown})
	}
	if extra.Position {
		fields = append(fields, field{namePosition, &column{kind: kindBytes}})
	}
	if extra.Metadata {
		fields = append(fields, field{nameMetadata, &column{kind: kindMap, items: &column{kind: kindText}}})
	}
	first := state{columns: structOf(fields)}
	return &Table{extra: extra, current: first, committed: first, declared: map[*schema.Codec]*column{}}
}

// Commit keeps the columns that the files of t need.
func (t *Table) Commit() { t.committed = t.current }

// Rollback returns to the columns of the last Commit. The same records then have the same files again.
func (t *Table) Rollback() { t.set(t.committed) }

func (t *Table) set(s state) {
	if s.columns != t.current.columns {
		t.layout = nil
	}
	t.current = s
}

// maxDeclared bounds the schemas whose columns are kept.
const maxDeclared = 64

// declare adds the columns of the schemas of a record to c.
func (t *Table) declare(w *widening, c *column, s Schemas) *column {
	if s.Payload != nil && s.Payload != t.current.schemas.Payload {
		var fields []field
		for _, f := range t.columnsOf(s.Payload).fields {
			if !t.isExtra(f.name) {
				fields = append(fields, f)
			}
		}
		c = w.merge(c, structOf(fields))
	}
	if s.Key != nil && s.Key != t.current.schemas.Key && t.extra.Key {
		c = w.merge(c, structOf([]field{{nameKey, t.columnsOf(s.Key)}}))
	}
	return c
}

func (t *Table) columnsOf(codec *schema.Codec) *column {
	c := t.declared[codec]
	if c == nil {
		if len(t.declared) >= maxDeclared {
			clear(t.declared)
		}
		c = columnOf(schema.Describe(codec))
		t.declared[codec] = c
	}
	return c
}

const remedy = "; convert the field with a processor before this destination, or set parquet.columns to record"

// row returns a record as an object with the fields of the table.
func (t *Table) row(r *record.Record) (map[string]any, error) {
	payload, err := t.payload(r)
	if err != nil {
		return nil, err
	}
	row := make(map[string]any, len(payload)+4)
	for name, v := range payload {
		if t.isExtra(name) {
			return nil, fmt.Errorf("cannot write field %s of the payload: the column of this name has a part of the "+
				"record; rename the field, or remove %s from parquet.recordColumns", name,
				strings.TrimPrefix(name, "conduit_"))
		}
		row[name] = v
	}
	if t.extra.Operation {
		row[nameOperation] = r.Operation.String()
	}
	if t.extra.Position {
		row[namePosition] = []byte(r.Position)
	}
	if t.extra.Metadata {
		all := make(map[string]any, len(r.Metadata))
		for _, f := range r.Metadata {
			all[record.ValidName(f.Key)] = record.ValidName(f.Value)
		}
		row[nameMetadata] = all
	}
	if m, ok := r.Key.Structured(); ok && t.extra.Key {
		row[nameKey] = m
	} else if raw, ok := r.Key.Raw(); ok && t.extra.Key {
		row[nameKey] = raw
	}
	return row, nil
}

func (t *Table) isExtra(name string) bool {
	return t.extra.Operation && name == nameOperation || t.extra.Key && name == nameKey ||
		t.extra.Position && name == namePosition || t.extra.Metadata && name == nameMetadata
}

var errRaw = errors.New("cannot write raw data as columns: parse it with a processor before this destination, such " +
	"as json.decode or parse.csv, or set parquet.columns to record")

// payload returns the object whose fields become columns: the payload, or for a delete the former payload or the key.
func (t *Table) payload(r *record.Record) (map[string]any, error) {
	if r.Operation != record.OperationDelete {
		return structured(r.After)
	}
	if !t.extra.Operation {
		return nil, errors.New("cannot write a delete, because no column has the operation: add operation to " +
			"parquet.recordColumns, or filter deletes")
	}
	for _, d := range []record.Data{r.Before, r.After} {
		if !d.IsNone() {
			return structured(d)
		}
	}
	if m, ok := r.Key.Structured(); ok || t.extra.Key {
		return m, nil
	}
	return nil, errors.New("cannot write a delete with neither a payload nor a structured key: add key to " +
		"parquet.recordColumns")
}

func structured(d record.Data) (map[string]any, error) {
	m, ok := d.Structured()
	switch {
	case d.IsNone():
		return nil, nil
	case !ok:
		return nil, errRaw
	}
	return m, nil
}

// maxColumns bounds the columns of a file, and maxCells its columns times its records: a column takes memory also for
// a record that lacks it.
const (
	maxColumns = 4096
	maxCells   = 4 << 20
)

// File collects the records for a file.
type File struct {
	table *Table
	limit int // bytes of memory of the records
	size  int
	rows  []map[string]any
}

// NewFile returns an empty file. Its records need at most limit bytes of memory, unless it has one record.
func (t *Table) NewFile(limit int) *File { return &File{table: t, limit: limit} }

// Add adds a record, whose values must not change before Encode. It returns false if the record belongs to another
// file, because this one is full, or because the record changes the type of a column. The error is about a record that
// fits no file of the table.
func (f *File) Add(r *record.Record, schemas Schemas) (bool, error) {
	t := f.table
	row, err := t.row(r)
	if err != nil {
		return false, err
	}
	var w widening
	columns := t.declare(&w, t.current.columns, schemas)
	columns, err = w.object(columns, row)
	if err == nil && w.converted { // a list may have values that fitted only before
		_, err = new(widening).object(columns, row)
	}
	if err != nil {
		return false, fmt.Errorf("%w%s", err, remedy)
	}
	leaves := columns.leaves()
	switch {
	case len(columns.fields) == 0:
		return false, errors.New("cannot write a record without fields as columns: filter it, or set parquet.columns " +
			"to record")
	case columns != t.current.columns && leaves > maxColumns:
		return false, fmt.Errorf("cannot write the record: its file would have more than %d columns; use fewer field "+
			"names, or set parquet.columns to record", maxColumns)
	}
	size := f.size + record.ValueMemory(row)
	if len(f.rows) > 0 && (w.converted || size > f.limit || (len(f.rows)+1)*leaves > maxCells) {
		return false, nil
	}
	t.set(state{columns, schemas})
	f.rows, f.size = append(f.rows, row), size
	return true, nil
}
