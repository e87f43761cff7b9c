package javascript

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dop251/goja"

	"github.com/conduit-agent/conduit/plugins/processor/fieldref"
	"github.com/conduit-agent/conduit/plugins/record"
)

// pieceBytes is the memory of each record if a script returns several, in bytes.
const pieceBytes = 400

// recordObject presents a record to the script, with the members Position, Operation, Metadata, Key and Payload. A nil
// value is not converted yet, and is unchanged from r.
type recordObject struct {
	call     scope
	r        *record.Record // unchanged
	self     *goja.Object
	position goja.Value
	metadata goja.Value
	key      slot
	payload  payloadObject
	change   *goja.Object // the wrapped payload
	meta     metadataObject
	kind     record.Operation

	// Memory of the wrapper of After and of its first edits: most scripts use them.
	after object
	edits [4]edit
}

// payloadObject is the member Payload, with Before and After.
type payloadObject struct {
	record        *recordObject
	before, after slot
}

// slot is a member of a record or payload: data of the record, or a value of the script. A nil value is not
// converted yet.
type slot struct {
	value goja.Value
	own   *object // behind value, if value is the structured data of the record
}

// newRecord returns a wrapped r.
func (c *call) newRecord(r *record.Record) *recordObject {
	o := &recordObject{call: c.scope(), r: r, kind: r.Operation}
	o.payload.record = o
	o.meta.call, o.meta.fields = o.call, r.Metadata
	o.self = c.vm.NewDynamicObject(o)
	return o
}

var recordKeys = []string{"Position", "Operation", "Metadata", "Key", "Payload"}

func (o *recordObject) Keys() []string         { return slices.Clone(recordKeys) }
func (o *recordObject) Has(key string) bool    { return slices.Contains(recordKeys, key) }
func (o *recordObject) Delete(key string) bool { return !o.Has(key) }

func (o *recordObject) Get(key string) goja.Value {
	o.call.check()
	switch key {
	case "Payload":
		if o.change == nil {
			o.change = o.call.vm.NewDynamicObject(&o.payload)
		}
		return o.change
	case "Metadata":
		if o.metadata == nil {
			o.metadata = o.call.vm.NewDynamicObject(&o.meta)
		}
		return o.metadata
	case "Key":
		return o.call.wrapData(&o.key, o.r.Key, new(object))
	case "Operation":
		return o.call.vm.ToValue(o.operation())
	case "Position":
		if o.position == nil {
			o.position = o.call.rawData(&rawBytes{call: o.call, b: o.r.Position})
		}
		return o.position
	}
	return nil
}

func (o *recordObject) operation() string {
	if o.kind == 0 {
		return ""
	}
	return o.kind.String()
}

func (o *recordObject) Set(key string, v goja.Value) bool {
	o.call.check()
	var err error
	switch key {
	case "Payload":
		err = o.setPayload(v)
	case "Metadata":
		err = o.setMetadata(v)
	case "Key":
		err = o.call.setData(&o.key, v)
	case "Operation":
		o.kind, err = parseOperation(v)
	case "Position":
		o.position = v
	default:
		err = errors.New("a record has only Position, Operation, Metadata, Key and Payload")
	}
	if err != nil {
		panic(o.call.vm.NewTypeError("cannot set %s: %v", key, err))
	}
	return true
}

func parseOperation(v goja.Value) (record.Operation, error) {
	if s := v.String(); s != "" {
		return record.ParseOperation(s)
	}
	return 0, nil
}

// setPayload copies Before and After from another Payload or object.
func (o *recordObject) setPayload(v goja.Value) error {
	from, ok := v.(*goja.Object)
	if !ok || from.ClassName() != "Object" {
		return errors.New("want an object with Before and After")
	}
	before, after := from.Get("Before"), from.Get("After")
	if err := o.call.setData(&o.payload.before, before); err != nil {
		return err
	}
	return o.call.setData(&o.payload.after, after)
}

func (o *recordObject) setMetadata(v goja.Value) error {
	var m record.Metadata
	if !isNullish(v) {
		from, ok := v.(*goja.Object)
		if !ok || from.ClassName() != "Object" {
			return errors.New("want an object")
		}
		for _, k := range from.Keys() {
			text, err := metadataText(from.Get(k))
			if err != nil {
				return fmt.Errorf("%s: %w", k, err)
			}
			m.Add(k, text)
		}
		m.Sort()
	}
	o.meta.fields, o.meta.owned = m, true
	return nil
}

func (o *payloadObject) Keys() []string { return []string{"Before", "After"} }
func (o *payloadObject) Has(key string) bool {
	return key == "Before" || key == "After"
}
func (o *payloadObject) Delete(key string) bool { return !o.Has(key) }

func (o *payloadObject) Get(key string) goja.Value {
	c := o.record.call
	c.check()
	switch key {
	case "After":
		if o.after.value == nil {
			o.record.after.edits.list = o.record.edits[:0]
		}
		return c.wrapData(&o.after, o.record.r.After, &o.record.after)
	case "Before":
		return c.wrapData(&o.before, o.record.r.Before, new(object))
	}
	return nil
}

func (o *payloadObject) Set(key string, v goja.Value) bool {
	c := o.record.call
	c.check()
	var err error
	switch key {
	case "After":
		err = c.setData(&o.after, v)
	case "Before":
		err = c.setData(&o.before, v)
	default:
		err = errors.New("a payload has only Before and After")
	}
	if err != nil {
		panic(c.vm.NewTypeError("cannot set Payload.%s: %v", key, err))
	}
	return true
}

// wrapData returns the value in the slot. An empty slot gets d converted for the script; own is the memory of the
// wrapper of structured data.
func (c *call) wrapData(s *slot, d record.Data, own *object) goja.Value {
	if s.value == nil {
		if b, ok := d.Raw(); ok {
			s.value = c.wrap(b)
		} else if m, ok := d.Structured(); ok {
			own.call, own.m = c.scope(), m
			s.value, s.own = c.vm.NewDynamicObject(own), own
		} else {
			s.value = goja.Null()
		}
	}
	return s.value
}

// setData stores v in the slot if v can be a key or one side of a payload.
func (c *call) setData(s *slot, v goja.Value) error {
	if s.own != nil && s.value == v {
		return nil
	}
	*s = slot{value: v}
	if isNullish(v) {
		s.value = goja.Null()
		return nil
	}
	if o, ok := v.(*goja.Object); ok {
		if _, raw := bytesIn(o); raw || o.ClassName() == "Object" {
			return nil
		}
		return fmt.Errorf("want an object, RawData, text or null, not a %s", o.ClassName())
	}
	if _, ok := v.Export().(string); !ok {
		return fmt.Errorf("want an object, RawData, text or null, not %s", v)
	}
	return nil
}

func isNullish(v goja.Value) bool { return v == nil || goja.IsNull(v) || goja.IsUndefined(v) }

// bytesIn returns the bytes of an object of the kind RawData.
func bytesIn(o *goja.Object) ([]byte, bool) {
	switch w := exported(o).(type) {
	case *rawBytes:
		return w.b, true
	case []byte:
		return w, true
	case goja.ArrayBuffer:
		return w.Bytes(), true
	}
	return nil, false
}

// data returns the data in the slot, or d if the script did not access it.
func (c *call) data(s *slot, d record.Data, take bool) (record.Data, error) {
	switch {
	case s.value == nil && take:
		return d, nil
	case s.value == nil:
		return c.copyData(d)
	case s.own != nil && take:
		m, err := s.own.take(0)
		return record.Structured(m), err
	case goja.IsNull(s.value):
		return record.Data{}, nil
	}
	o, ok := s.value.(*goja.Object)
	if !ok {
		return record.Raw([]byte(s.value.String())), nil
	}
	if b, ok := bytesIn(o); ok {
		return record.Raw(slices.Clone(b)), c.charge(len(b))
	}
	v, err := c.resolve(s.value, 0, take)
	if err != nil {
		return record.Data{}, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return record.Data{}, fmt.Errorf("want an object, not type %s", fieldref.Kind(v))
	}
	return record.Structured(m), nil
}

// copyData returns a copy of d.
func (c *call) copyData(d record.Data) (record.Data, error) {
	m, ok := d.Structured()
	if !ok {
		b, _ := d.Raw()
		return d.Clone(), c.charge(len(b))
	}
	v, err := c.clone(m)
	if err != nil {
		return record.Data{}, err
	}
	return record.Structured(v.(map[string]any)), nil
}

// result returns the record with the changes of the script. Unless take is set, it shares nothing with the original
// record.
func (o *recordObject) result(take bool) (r record.Record, err error) {
	if err := o.checkPosition(); err != nil {
		return r, err
	}
	r = record.Record{Position: o.r.Position, Operation: o.kind, Metadata: o.meta.fields}
	if !take {
		if err := o.call.charge(pieceBytes + memberBytes*len(r.Metadata)); err != nil {
			return r, err
		}
		r.Metadata = r.Metadata.Clone()
	}
	if r.Key, err = o.call.data(&o.key, o.r.Key, take); err != nil {
		return r, fmt.Errorf("cannot set Key: %w", err)
	}
	if r.Before, err = o.call.data(&o.payload.before, o.r.Before, take); err != nil {
		return r, fmt.Errorf("cannot set Payload.Before: %w", err)
	}
	if r.After, err = o.call.data(&o.payload.after, o.r.After, take); err != nil {
		return r, fmt.Errorf("cannot set Payload.After: %w", err)
	}
	return r, nil
}

// plain reports whether result runs no code of the script: the script changed only members of the data of the record,
// to values that are no objects.
func (o *recordObject) plain() bool {
	return o.position == nil && o.key.plain() && o.payload.before.plain() && o.payload.after.plain()
}

func (s *slot) plain() bool {
	if s.value == nil {
		return true
	}
	if s.own == nil {
		return false
	}
	for _, e := range s.own.edits.list {
		if _, nested := e.value.(*goja.Object); nested {
			return false
		}
	}
	return true
}

// checkPosition refuses a changed position: only the source of a record can make positions.
func (o *recordObject) checkPosition() error {
	if isNullish(o.position) {
		return nil
	}
	var b []byte
	if p, ok := o.position.(*goja.Object); ok {
		b, _ = bytesIn(p)
	} else {
		b = []byte(o.position.String())
	}
	if len(b) > 0 && !bytes.Equal(b, o.call.position) {
		return errors.New("cannot set Position: it belongs to the source, which could not acknowledge another one")
	}
	return nil
}

// metadataObject presents the metadata of a record to the script.
type metadataObject struct {
	call   scope
	fields record.Metadata
	owned  bool // fields is a copy that may be changed
}

func (o *metadataObject) find(key string) int {
	o.call.check()
	i, ok := slices.BinarySearchFunc(o.fields, key, func(f record.Field, key string) int {
		return strings.Compare(f.Key, key)
	})
	if !ok {
		return -1
	}
	return i
}

func (o *metadataObject) Get(key string) goja.Value {
	if i := o.find(key); i >= 0 {
		return o.call.vm.ToValue(o.fields[i].Value)
	}
	return nil
}

func (o *metadataObject) Has(key string) bool { return o.find(key) >= 0 }

func (o *metadataObject) own() {
	if !o.owned {
		o.fields, o.owned = append(make(record.Metadata, 0, len(o.fields)+2), o.fields...), true
	}
}

func (o *metadataObject) Set(key string, v goja.Value) bool {
	o.call.check()
	text, err := metadataText(v)
	if err != nil {
		panic(o.call.vm.NewTypeError("cannot set Metadata.%s: %v", key, err))
	}
	o.own()
	o.fields.Set(key, text)
	return true
}

func metadataText(v goja.Value) (string, error) {
	if isNullish(v) {
		return "", nil
	}
	if o, ok := v.(*goja.Object); ok {
		return "", fmt.Errorf("want text, not a %s", o.ClassName())
	}
	return v.String(), nil
}

func (o *metadataObject) Delete(key string) bool {
	o.call.check()
	o.own()
	o.fields.Delete(key)
	return true
}

func (o *metadataObject) Keys() []string {
	o.call.check()
	keys := make([]string, len(o.fields))
	for i, f := range o.fields {
		keys[i] = f.Key
	}
	return keys
}
