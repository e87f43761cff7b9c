package fieldref

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
)

// Get returns the value of the field in r, and whether r has it. Raw data is returned as []byte, structured data as
// map[string]any, the operation as record.Operation, the metadata as a whole as map[string]string, and the record as a
// whole as the result of record.Map. The value is not copied. Get fails if a part of the path is not structured data.
func (f *Ref) Get(r *record.Record) (any, bool, error) {
	v, ok, err := f.get(r)
	if ok {
		f.Find()
	}
	return v, ok, err
}

// Find records that a record has the field.
func (f *Ref) Find() {
	if !f.found.Load() { // a store alone would slow down other goroutines
		f.found.Store(true)
	}
}

func (f *Ref) get(r *record.Record) (any, bool, error) {
	switch f.root {
	case Key, Before, After:
		d := f.data(r)
		if len(f.path) == 0 {
			return Value(*d), !d.IsNone(), nil
		}
		m, err := f.parent(d)
		if err != nil || m == nil {
			return nil, false, err
		}
		v, ok := m[f.path[len(f.path)-1]]
		return v, ok, nil
	case Metadata:
		if len(f.path) == 0 {
			return r.Metadata.Map(), r.Metadata != nil, nil
		}
		for i := range r.Metadata {
			if r.Metadata[i].Key == f.path[0] {
				return r.Metadata[i].Value, true, nil
			}
		}
		return nil, false, nil
	case Position:
		return []byte(r.Position), len(r.Position) > 0, nil
	case Operation:
		return r.Operation, r.Operation != 0, nil
	case Payload:
		return map[string]any{"before": Value(r.Before), "after": Value(r.After)}, !r.Before.IsNone() ||
			!r.After.IsNone(), nil
	}
	return r.Map(), true, nil
}

// Value returns the content of d: []byte, map[string]any or nil.
func Value(d record.Data) any {
	if b, ok := d.Raw(); ok {
		return b
	}
	if m, ok := d.Structured(); ok {
		return m
	}
	return nil
}

// Data returns data with the content v: bytes or text, an object, or nothing.
func Data(v any) (record.Data, bool) {
	switch v := v.(type) {
	case nil:
		return record.Data{}, true
	case []byte:
		return record.Raw(v), true
	case string:
		return record.Raw([]byte(v)), true
	case map[string]any:
		return record.Structured(v), true
	case record.Data:
		return v, true
	}
	return record.Data{}, false
}

func (f *Ref) data(r *record.Record) *record.Data {
	switch f.root {
	case Key:
		return &r.Key
	case Before:
		return &r.Before
	}
	return &r.After
}

// parent returns the object that contains the field, or nil if there is none.
func (f *Ref) parent(d *record.Data) (map[string]any, error) {
	m, ok := d.Structured()
	if !ok {
		if d.IsNone() {
			return nil, nil
		}
		return nil, f.notStructured(0)
	}
	for i, name := range f.path[:len(f.path)-1] {
		v, exists := m[name]
		if !exists || v == nil {
			return nil, nil
		}
		if m, ok = v.(map[string]any); !ok {
			return nil, f.notStructured(i + 1)
		}
	}
	return m, nil
}

func (f *Ref) notStructured(n int) error {
	return fmt.Errorf("cannot resolve %s: %s does not contain structured data", f, &Ref{root: f.root, path: f.path[:n]})
}

var errImmutable = errors.New("the reference is immutable")

// Set sets the field in r to v, and creates missing objects along the path. A key or payload that becomes raw loses its
// schema. Key and payload accept bytes, text, objects and nil; metadata and the operation accept text; the record as a
// whole and its position cannot be set.
func (f *Ref) Set(r *record.Record, v any) error {
	switch f.root {
	case Key, Before, After:
		if len(f.path) > 0 {
			return f.setNested(f.data(r), v)
		}
		d, ok := Data(v)
		if !ok {
			return f.cannotSet(v)
		}
		*f.data(r) = d
		if _, raw := d.Raw(); raw {
			f.dropSchema(r)
		}
		return nil
	case Metadata:
		return f.setMetadata(r, v)
	case Operation:
		return f.setOperation(r, v)
	case Payload:
		return f.cannotSet(v)
	}
	return fmt.Errorf("cannot set %s: %w", f, errImmutable)
}

// dropSchema removes the name of the schema from the metadata, because the new raw data is not encoded with it.
func (f *Ref) dropSchema(r *record.Record) {
	subject, version := record.KeyPayloadSchemaSubject, record.KeyPayloadSchemaVersion
	if f.root == Key {
		subject, version = record.KeyKeySchemaSubject, record.KeyKeySchemaVersion
	}
	if r.Metadata.Get(subject) != "" || r.Metadata.Get(version) != "" {
		r.Metadata.Delete(subject)
		r.Metadata.Delete(version)
	}
}

func (f *Ref) cannotSet(v any) error {
	return fmt.Errorf("cannot set %s: unexpected type %s", f, Kind(v))
}

// Kind returns the name of the type of a structured-data value, for messages: text, list, object and so on.
func Kind(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "text"
	case []byte:
		return "bytes"
	case bool:
		return "boolean"
	case int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64:
		return "integer"
	case float32, float64, json.Number:
		return "number"
	case []any:
		return "list"
	case map[string]any, map[string]string:
		return "object"
	case time.Time:
		return "time"
	}
	return fmt.Sprintf("%T", v)
}

func (f *Ref) setNested(d *record.Data, v any) error {
	m, ok := d.Structured()
	if !ok && !d.IsNone() {
		return f.notStructured(0)
	}
	if m == nil {
		m = make(map[string]any, 1)
		*d = record.Structured(m)
	}
	last := len(f.path) - 1
	for i, name := range f.path[:last] {
		inner, ok := m[name].(map[string]any)
		if !ok && m[name] != nil {
			return f.notStructured(i + 1)
		}
		if inner == nil {
			inner = make(map[string]any, 1)
			m[name] = inner
		}
		m = inner
	}
	m[f.path[last]] = v
	return nil
}

func (f *Ref) setMetadata(r *record.Record, v any) error {
	if len(f.path) == 0 {
		switch v := v.(type) {
		case nil:
			r.Metadata = nil
		case map[string]string:
			r.Metadata = record.NewMetadata(v)
		default:
			return f.cannotSet(v)
		}
		return nil
	}
	switch v := v.(type) {
	case nil:
		r.Metadata.Delete(f.path[0])
	case string:
		r.Metadata.Set(f.path[0], v)
	case []byte:
		r.Metadata.Set(f.path[0], string(v))
	default:
		return f.cannotSet(v)
	}
	return nil
}

func (f *Ref) setOperation(r *record.Record, v any) error {
	switch v := v.(type) {
	case record.Operation:
		r.Operation = v
		return nil
	case []byte:
		return f.setOperation(r, string(v))
	case string:
		if n, err := strconv.Atoi(v); err == nil && n >= 1 && n <= 4 {
			r.Operation = record.Operation(n)
			return nil
		}
		op, err := record.ParseOperation(v)
		if err != nil {
			return fmt.Errorf("cannot set .Operation: %w", err)
		}
		r.Operation = op
		return nil
	}
	return f.cannotSet(v)
}

// Delete removes the field from r. A root is left empty; the payload as a whole loses both sides. A missing field is
// not an error.
func (f *Ref) Delete(r *record.Record) error {
	switch f.root {
	case Key, Before, After:
		d := f.data(r)
		if len(f.path) == 0 {
			*d = record.Data{}
			return nil
		}
		m, err := f.parent(d)
		if err != nil {
			return err
		}
		last := f.path[len(f.path)-1]
		if _, ok := m[last]; ok {
			f.Find()
			delete(m, last)
		}
		return nil
	case Metadata:
		if len(f.path) == 0 {
			r.Metadata = record.Metadata{}
		} else if _, ok, _ := f.Get(r); ok {
			r.Metadata.Delete(f.path[0])
		}
		return nil
	case Payload:
		r.Before, r.After = record.Data{}, record.Data{}
		return nil
	}
	return fmt.Errorf("cannot delete %s: %w", f, errImmutable)
}

// Rename gives the field the new name within the same object. A missing field is not an error. Rename fails if the new
// name exists already, and for fields without a name of their own.
func (f *Ref) Rename(r *record.Record, name string) error {
	if len(f.path) == 0 {
		return fmt.Errorf("cannot rename %s: %w", f, errImmutable)
	}
	last := f.path[len(f.path)-1]
	if f.root == Metadata {
		return f.renameMetadata(r, last, name)
	}
	m, err := f.parent(f.data(r))
	if err != nil {
		return err
	}
	v, ok := m[last]
	if !ok {
		return nil
	}
	f.Find()
	if last == name {
		return nil
	}
	if _, taken := m[name]; taken {
		return f.taken(name)
	}
	delete(m, last)
	m[name] = v
	return nil
}

func (f *Ref) renameMetadata(r *record.Record, from, to string) error {
	has := func(key string) bool {
		for i := range r.Metadata {
			if r.Metadata[i].Key == key {
				return true
			}
		}
		return false
	}
	if !has(from) {
		return nil
	}
	f.Find()
	if from == to {
		return nil
	}
	if has(to) {
		return f.taken(to)
	}
	v := r.Metadata.Get(from)
	r.Metadata.Delete(from)
	r.Metadata.Set(to, v)
	return nil
}

func (f *Ref) taken(name string) error {
	return fmt.Errorf("cannot rename %s: field %q already exists", f, name)
}
