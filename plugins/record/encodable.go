package record

import (
	"fmt"
	"reflect"
)

// encodableDepth is the maximum depth of structured data that every encoder accepts, even inside other data.
const encodableDepth = maxDepth - 20

// Encodable returns r, or a copy that every encoder of records accepts. In the copy, structured data that is nested too
// deeply, or has values of unsupported types, is raw data: its JSON form, with such values as text. A text replaces
// values nested deeper than JSON allows.
func (r Record) Encodable() Record {
	r.Key, r.Before, r.After = r.Key.encodable(), r.Before.encodable(), r.After.encodable()
	return r
}

func (d Data) encodable() Data {
	if d.kind != structured || isEncodable(d.object(), 0) {
		return d
	}
	var v any = d.object()
	if isTooDeep(v) { // possibly on several paths
		v = shallow(v)
	}
	text, err := AppendValue(nil, replaceUnencodable(v, 0))
	if err != nil { // impossible: all values without a form were replaced
		text = fmt.Append(nil, err)
	}
	return Raw(text)
}

// isEncodable reports whether every encoder can write v, which is nested depth levels deep.
func isEncodable(v any, depth int) bool {
	if depth > encodableDepth {
		return false
	}
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			if !isEncodable(e, depth+1) {
				return false
			}
		}
		return true
	case []any:
		for _, e := range v {
			if !isEncodable(e, depth+1) {
				return false
			}
		}
		return true
	}
	_, err := AppendValue(nil, v)
	return err == nil
}

// replaceUnencodable returns a copy of v with text in place of values without a JSON form.
func replaceUnencodable(v any, depth int) any {
	switch v := v.(type) {
	case map[string]any:
		if depth > maxJSONDepth-1 {
			return errTooDeepForJSON.Error()
		}
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = replaceUnencodable(e, depth+1)
		}
		return out
	case []any:
		if depth > maxJSONDepth-1 {
			return errTooDeepForJSON.Error()
		}
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = replaceUnencodable(e, depth+1)
		}
		return out
	}
	if _, err := AppendValue(nil, v); err == nil {
		return v
	}
	switch reflect.ValueOf(v).Kind() {
	case reflect.Bool, reflect.Complex64, reflect.Complex128, reflect.Struct:
		return fmt.Sprint(v)
	}
	return fmt.Sprintf("(%T)", v)
}
