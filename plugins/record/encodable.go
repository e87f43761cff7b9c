package record

import (
	"fmt"
	"reflect"
)

// encodableDepth is how deep structured data may be nested that every encoder takes, also inside of other data.
const encodableDepth = maxDepth - 20

// Encodable returns r, or a copy that every encoder of records takes. Structured data that is nested too deeply, or has
// values of types that structured data does not have, is raw data in the copy: its JSON form, in which such values are
// text. What is nested deeper than JSON allows is replaced by a text that says so.
func (r Record) Encodable() Record {
	r.Key, r.Before, r.After = r.Key.encodable(), r.Before.encodable(), r.After.encodable()
	return r
}

func (d Data) encodable() Data {
	if d.kind != structured || isEncodable(d.object(), 0) {
		return d
	}
	var v any = d.object()
	if isTooDeep(v) { // on several ways, perhaps
		v = shallow(v)
	}
	text, err := AppendValue(nil, replaceUnencodable(v, 0))
	if err != nil { // cannot be: all that has no form was replaced
		text = fmt.Append(nil, err)
	}
	return Raw(text)
}

// isEncodable reports whether v, which is inside of depth others, has a form that every encoder writes.
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

// replaceUnencodable returns a copy of v in which values without a JSON form are text.
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
