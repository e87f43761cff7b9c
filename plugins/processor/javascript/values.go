package javascript

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/dop251/goja"

	"github.com/conduit-agent/conduit/plugins/record"
)

// maxDepth bounds the nesting of the objects that a script makes.
const maxDepth = 1000

// call is the running call of process, and then the next one.
type call struct {
	vm       *goja.Runtime
	date     *goja.Object    // the constructor Date
	raw      *goja.Object    // the prototype of raw data
	exact    *goja.Object    // the prototype of an exactNumber
	ended    uint64          // number of calls that have ended
	changed  []change        // changes of data of the record, which a refused record does not keep
	position record.Position // position of the record being processed
	limit    uint64          // limit of charged
	charged  uint64          // bytes copied out of the script
}

// Memory of an object and each member, in bytes.
const (
	mapBytes    = 48
	memberBytes = 64
)

// charge counts n bytes of a copy that leaves the script. A value that a script refers to several times is copied and
// counted each time.
func (c *call) charge(n int) error {
	if c.charged += uint64(n); c.charged > c.limit {
		return fmt.Errorf("the script returned more than %d MiB", c.limit>>20)
	}
	return nil
}

// scope is the call in which a wrapper of a record's data was made. The wrapper is usable only until this call ends,
// because the data has another owner then.
type scope struct {
	*call
	made uint64 // number of calls that had ended
}

// scope returns the scope of wrappers made now.
func (c *call) scope() scope { return scope{c, c.ended} }

// check throws if the call is over.
func (c scope) check() {
	if c.ended != c.made {
		panic(c.vm.NewTypeError("this record has been passed on: copy the parts that you keep"))
	}
}

// maxInteger is the largest integer up to which JavaScript represents all integers exactly.
const maxInteger = 1 << 53

// wrap converts v, a value of structured data, for the script. Objects and lists are wrapped, not copied.
func (c *call) wrap(v any) goja.Value {
	switch v := v.(type) {
	case nil:
		return goja.Null()
	case int64:
		if v > maxInteger || v < -maxInteger {
			return c.number(strconv.FormatInt(v, 10))
		}
		return c.vm.ToValue(v)
	case string, bool, float64:
		return c.vm.ToValue(v)
	case int:
		return c.wrap(int64(v))
	case map[string]any:
		return c.vm.NewDynamicObject(&object{call: c.scope(), m: v})
	case []any:
		return c.vm.NewDynamicArray(&list{call: c.scope(), items: v})
	case []byte:
		return c.rawData(&rawBytes{call: c.scope(), b: v})
	case time.Time:
		date, err := c.vm.New(c.date, c.vm.ToValue(v.UnixMilli()))
		if err != nil {
			panic(err)
		}
		return date
	case time.Duration:
		return c.wrap(int64(v))
	case uint64:
		return c.number(strconv.FormatUint(v, 10))
	case uint:
		return c.wrap(uint64(v))
	case int8, int16, int32, uint8, uint16, uint32, float32:
		return c.vm.ToValue(v)
	case json.Number:
		if record.IsNumber(string(v)) {
			return c.number(string(v))
		}
	}
	return c.vm.ToValue(fmt.Sprint(v))
}

// rawData converts raw data for the script: a list of numbers that also has the method text.
func (c *call) rawData(o *rawBytes) goja.Value {
	v := c.vm.NewDynamicArray(o)
	_ = v.SetPrototype(c.raw) // v is new, so this cannot fail
	return v
}

// editable reports whether the wrapped v can be changed in place.
func editable(v any) bool {
	switch v.(type) {
	case map[string]any, []any, []byte:
		return true
	}
	return false
}

// unwrap converts v to structured data. The result shares nothing with values that a script or another record may still
// change.
func (c *call) unwrap(v goja.Value, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested deeper than %d", maxDepth)
	}
	o, ok := v.(*goja.Object)
	if !ok {
		return unwrapPrimitive(v)
	}
	switch w := exported(o).(type) {
	case *object:
		return w.copied(depth)
	case *list:
		return w.copied(depth)
	case *rawBytes:
		return slices.Clone(w.b), c.charge(len(w.b))
	case *metadataObject:
		return anyMap(w.fields), c.charge(memberBytes * len(w.fields))
	case *recordObject, *payloadObject:
		return nil, errors.New("a record or payload cannot be a value inside of another")
	case *exactNumber:
		return json.Number(w.text), c.charge(len(w.text))
	case *big.Int: // a BigInt object
		return fromBigInt(w)
	case time.Time:
		return w, nil
	case goja.ArrayBuffer:
		return slices.Clone(w.Bytes()), c.charge(len(w.Bytes()))
	case func(goja.FunctionCall) goja.Value:
		return nil, errors.New("a function cannot be a value of a record")
	case bool, string, int64, float64: // Boolean, String, Number objects
		return w, nil
	}
	return c.unwrapObject(o, depth)
}

func anyMap(m record.Metadata) map[string]any {
	out := make(map[string]any, len(m))
	for _, f := range m {
		out[f.Key] = f.Value
	}
	return out
}

func unwrapPrimitive(v goja.Value) (any, error) {
	if v == nil {
		return nil, nil
	}
	switch kindOf(v) {
	case reflect.Invalid:
		return nil, nil
	case reflect.String:
		return v.String(), nil // needs less memory than Export
	case reflect.Int64:
		return v.ToInteger(), nil
	}
	switch e := v.Export().(type) {
	case nil, bool:
		return e, nil
	case *big.Int:
		return fromBigInt(e)
	case float64:
		if math.IsNaN(e) || math.IsInf(e, 0) {
			return nil, fmt.Errorf("%v cannot be a value of a record", e)
		}
		return e, nil
	default:
		return nil, fmt.Errorf("a %s cannot be a value of a record", v.ExportType())
	}
}

// checkPrimitive returns the error that unwrapPrimitive would return.
func checkPrimitive(v goja.Value) error {
	switch kindOf(v) {
	case reflect.Invalid, reflect.String, reflect.Int64, reflect.Bool:
		return nil
	}
	_, err := unwrapPrimitive(v)
	return err
}

// kindOf returns the kind of Go value that v, which is no object, is exported as; Invalid for null and undefined.
func kindOf(v goja.Value) reflect.Kind {
	if isNullish(v) {
		return reflect.Invalid
	}
	if t := v.ExportType(); t != nil {
		return t.Kind()
	}
	return reflect.Invalid
}

// unwrapObject copies an object that the script made.
func (c *call) unwrapObject(o *goja.Object, depth int) (any, error) {
	switch o.ClassName() {
	case "Array":
		n := lengthOf(o)
		if n > maxLength {
			return nil, fmt.Errorf("a list of %d is too long: at most %d", n, maxLength)
		}
		if err := c.charge(elementBytes * int(n)); err != nil {
			return nil, err
		}
		out := make([]any, n)
		for i := range out {
			var err error
			if out[i], err = c.unwrap(o.Get(strconv.Itoa(i)), depth+1); err != nil {
				return nil, fmt.Errorf("[%d]: %w", i, err)
			}
		}
		return out, nil
	case "Object":
		if b, ok := typedArray(o); ok {
			return b, c.charge(len(b))
		}
		keys := o.Keys()
		if err := c.charge(mapBytes + memberBytes*len(keys)); err != nil {
			return nil, err
		}
		out := make(map[string]any, len(keys))
		for _, k := range keys {
			v, err := c.unwrap(o.Get(k), depth+1)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", k, err)
			}
			out[k] = v
		}
		return out, nil
	}
	return nil, fmt.Errorf("a %s cannot be a value of a record", o.ClassName())
}

// typedArray returns the bytes of a Uint8Array, Uint8ClampedArray or DataView.
func typedArray(o *goja.Object) ([]byte, bool) {
	b, ok := exported(o).([]byte)
	return slices.Clone(b), ok
}

var bigInt = reflect.TypeFor[*big.Int]()

var collections = []reflect.Type{reflect.TypeFor[map[string]any](), reflect.TypeFor[[]any](),
	reflect.TypeFor[[][2]any]()}

// exported returns the Go value behind o, or nil for an object, array, Map or Set that a script made, because exporting
// these would copy all their content.
func exported(o *goja.Object) any {
	if slices.Contains(collections, o.ExportType()) {
		return nil
	}
	return o.Export()
}

// object presents a map to the script. The changes of the script are kept separate from the map until the call ends, so
// that a record is unchanged if it is refused in the end.
type object struct {
	call  scope
	m     map[string]any
	edits edits // also holds nested values that were read
	taken bool  // already passed on as part of a record
}

func (o *object) Get(key string) goja.Value {
	o.call.check()
	if v, ok := o.edits.get(key); ok {
		return v
	}
	v, ok := o.m[key]
	if !ok {
		return nil
	}
	w := o.call.wrap(v)
	if editable(v) {
		o.edits.set(key, w) // return the same object the next time
	}
	return w
}

func (o *object) Set(key string, v goja.Value) bool {
	o.call.check()
	if _, nested := v.(*goja.Object); !nested {
		if err := checkPrimitive(v); err != nil {
			panic(o.call.vm.NewTypeError("cannot set %q: %v", key, err))
		}
	}
	o.edits.set(key, v)
	return true
}

func (o *object) Has(key string) bool {
	o.call.check()
	if v, ok := o.edits.get(key); ok {
		return v != nil
	}
	_, ok := o.m[key]
	return ok
}

func (o *object) Delete(key string) bool {
	o.call.check()
	if _, ok := o.m[key]; ok {
		o.edits.set(key, nil)
	} else {
		o.edits.forget(key)
	}
	return true
}

// Keys returns the keys in alphabetical order: structured data has no other order.
func (o *object) Keys() []string {
	o.call.check()
	keys := make([]string, 0, len(o.m)+len(o.edits.list))
	for k := range o.m {
		if v, ok := o.edits.get(k); !ok || v != nil {
			keys = append(keys, k)
		}
	}
	for _, e := range o.edits.list {
		if _, ok := o.m[e.key]; !ok && e.value != nil {
			keys = append(keys, e.key)
		}
	}
	slices.Sort(keys)
	return keys
}

// take returns the map with its edits. The second call returns a copy, so that no two places in records share a map.
func (o *object) take(depth int) (map[string]any, error) {
	if o.taken {
		return o.copied(depth)
	}
	o.taken = true
	return o.m, o.apply(o.m, depth, true)
}

// copied returns a deep copy of the map with its edits.
func (o *object) copied(depth int) (map[string]any, error) {
	if err := o.call.charge(mapBytes + memberBytes*(len(o.m)+len(o.edits.list))); err != nil {
		return nil, err
	}
	out := make(map[string]any, len(o.m)+len(o.edits.list))
	for k, v := range o.m {
		if o.edits.find(k) < 0 {
			var err error
			if out[k], err = o.call.clone(v); err != nil {
				return nil, err
			}
		}
	}
	return out, o.apply(out, depth, false)
}

// apply applies the edits to m. Nested values that came with the record are taken or copied.
func (o *object) apply(m map[string]any, depth int, take bool) error {
	for _, e := range o.edits.list {
		var value any
		if e.value != nil {
			var err error
			if value, err = o.call.resolve(e.value, depth+1, take); err != nil {
				return fmt.Errorf("%s: %w", e.key, err)
			}
		}
		if take {
			before, had := m[e.key]
			o.call.changed = append(o.call.changed, change{m, e.key, before, had})
		}
		if e.value == nil {
			delete(m, e.key)
		} else {
			m[e.key] = value
		}
	}
	return nil
}

// change is a change of a member of structured data.
type change struct {
	m      map[string]any
	key    string
	before any
	had    bool // there was a member before
}

// revert takes back all changes of the data of the record.
func (c *call) revert() {
	for _, u := range slices.Backward(c.changed) {
		if u.had {
			u.m[u.key] = u.before
		} else {
			delete(u.m, u.key)
		}
	}
}

// resolve converts v to structured data. A value that came with the record is taken as it is if take permits it;
// everything else is copied.
func (c *call) resolve(v goja.Value, depth int, take bool) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested deeper than %d", maxDepth)
	}
	if o, ok := v.(*goja.Object); ok && take {
		switch w := exported(o).(type) {
		case *object:
			return w.take(depth)
		case *list:
			return w.take(depth)
		}
	}
	return c.unwrap(v, depth)
}

// clone returns a copy of v, a value of structured data.
func (c *call) clone(v any) (any, error) {
	switch v := v.(type) {
	case map[string]any:
		if err := c.charge(mapBytes + memberBytes*len(v)); err != nil {
			return nil, err
		}
		out := make(map[string]any, len(v))
		for k, e := range v {
			var err error
			if out[k], err = c.clone(e); err != nil {
				return nil, err
			}
		}
		return out, nil
	case []any:
		if err := c.charge(elementBytes * len(v)); err != nil {
			return nil, err
		}
		out := make([]any, len(v))
		for i, e := range v {
			var err error
			if out[i], err = c.clone(e); err != nil {
				return nil, err
			}
		}
		return out, nil
	case []byte:
		if err := c.charge(len(v)); err != nil {
			return nil, err
		}
		return slices.Clone(v), nil
	}
	return v, nil
}
