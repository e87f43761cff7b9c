package record

import "reflect"

// tooDeep is the length or size of data nested deeper than maxJSONDepth, which includes data that contains itself. The
// first place that is too deep ends the computation, so that it does not follow all paths of data that contains itself
// several times.
const tooDeep = -1

// isTooDeep reports whether v is nested deeper than JSON allows.
func isTooDeep(v any) bool { return jsonLength(v, 0) == tooDeep }

// cut replaces a value that was too deep. No encoder accepts it, so a record with it is refused wherever it is encoded.
type cut struct{}

// String returns the text for the value in a record made by Encodable.
func (cut) String() string { return errTooDeepForJSON.Error() }

// MarshalJSON fails.
func (cut) MarshalJSON() ([]byte, error) { return nil, errTooDeepForJSON }

// Shallow replaces data that is nested too deeply, or contains itself, by a truncated copy. Every encoder refuses the
// copy as too deep, and every other traversal terminates. Shallow reports whether there was such data.
func (r *Record) Shallow() (changed bool) {
	for _, d := range []*Data{&r.Key, &r.Before, &r.After} {
		if d.kind == structured && d.encoded == nil && isTooDeep(d.structured) {
			d.structured, _ = shallow(d.structured).(map[string]any)
			changed = true
		}
	}
	return changed
}

// Shallow calls Record.Shallow for the records of b. Before the first use of a size of b it costs nothing extra,
// because it computes the sizes. Only the sole owner of the batch may call it.
func (b *Batch) Shallow() (changed bool) {
	if b.encoded != nil {
		return false
	}
	if b.sizes(); !b.deep {
		return false
	}
	records := *b.decoded.Load()
	for i := range records {
		changed = records[i].Shallow() || changed
	}
	return changed
}

// shallow returns a copy of v, in which cut replaces objects and lists that are repeated inside themselves or are too
// deep.
func shallow(v any) any { return (&shallowCopy{seen: map[container]bool{}}).value(v, 0) }

type shallowCopy struct{ seen map[container]bool }

// container identifies an object, or a list.
type container struct {
	at  uintptr
	len int // length of a list; -1: an object
}

func (c *shallowCopy) value(v any, depth int) any {
	switch v := v.(type) {
	case map[string]any:
		if v == nil {
			return v
		}
		if !c.enter(container{reflect.ValueOf(v).Pointer(), -1}, depth) {
			return cut{}
		}
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = c.value(e, depth+1)
		}
		return out
	case []any:
		if len(v) == 0 {
			return v
		}
		if !c.enter(container{reflect.ValueOf(v).Pointer(), len(v)}, depth) {
			return cut{}
		}
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = c.value(e, depth+1)
		}
		return out
	}
	return v
}

// enter reports whether a container occurs for the first time and is not too deep.
func (c *shallowCopy) enter(one container, depth int) bool {
	if c.seen[one] || depth > maxJSONDepth {
		return false
	}
	c.seen[one] = true
	return true
}

// isWithin reports whether a value of a user-defined type is nested at most left levels deep. Package json has no such
// limit.
func isWithin(v reflect.Value, left int) bool {
	if left < 0 {
		return false
	}
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		return v.IsNil() || isWithin(v.Elem(), left-1)
	case reflect.Struct:
		for i := range v.NumField() {
			if !isWithin(v.Field(i), left-1) {
				return false
			}
		}
	case reflect.Slice, reflect.Array:
		for i := 0; hasContainers(v.Type().Elem()) && i < v.Len(); i++ {
			if !isWithin(v.Index(i), left-1) {
				return false
			}
		}
	case reflect.Map:
		for it := v.MapRange(); hasContainers(v.Type().Elem()) && it.Next(); {
			if !isWithin(it.Value(), left-1) {
				return false
			}
		}
	}
	return true
}

// hasContainers reports whether values of a type may contain other values.
func hasContainers(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Interface, reflect.Pointer, reflect.Struct, reflect.Slice, reflect.Array, reflect.Map:
		return true
	}
	return false
}
