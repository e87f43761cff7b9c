package api

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"unicode"
)

// snake returns the name of a field in the form of Protocol Buffers: pipelineId is pipeline_id.
func snake(name string) string {
	var b strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			b.WriteByte('_')
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

// named returns the field for a name in JSON, either unchanged or in snake case, "" if there is none.
func named(fields map[string]reflect.Type, name string) string {
	if _, ok := fields[name]; ok {
		return name
	}
	if strings.Contains(name, "_") {
		for field := range fields {
			if snake(field) == name {
				return field
			}
		}
	}
	return ""
}

// renamed returns body with fields of t in snake case renamed to the names in t.
func renamed(body []byte, t reflect.Type) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		return nil, err
	}
	return json.Marshal(rename(v, t))
}

func rename(v any, t reflect.Type) any {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch v := v.(type) {
	case map[string]any:
		fields := fieldsOf(t)
		out := make(map[string]any, len(v))
		for name, value := range v {
			valueType := element(t, reflect.Map)
			if fields != nil {
				name = named(fields, name)
				valueType = fields[name]
			}
			out[name] = rename(value, valueType)
		}
		return out
	case []any:
		for i := range v {
			v[i] = rename(v[i], element(t, reflect.Slice))
		}
	}
	return v
}
