package avro

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// value converts a default to a value of the type. For a union it uses the first matching branch.
func value(v any, t resolved) (any, error) {
	switch t.node.Type {
	case "union":
		return branch(v, t)
	case "array":
		return list(v, t)
	case "map":
		return object(v, func(string) (resolved, bool) { return t.elements[0], true })
	case "record", "error":
		return fields(v, t.named)
	case "int", "long", "float", "double":
		return number(v, t.node.Type)
	case "bytes", "fixed":
		return octets(v, t.node)
	}
	text, isText := v.(string)
	_, isBool := v.(bool)
	valid := isText
	switch t.node.Type {
	case "null":
		valid = v == nil
	case "boolean":
		valid = isBool
	case "enum":
		valid = isText && slices.Contains(t.node.Symbols, text)
	}
	if !valid {
		return nil, fmt.Errorf("%v is no %s", v, t.node.Type)
	}
	return v, nil
}

func branch(v any, t resolved) (any, error) {
	for _, b := range t.elements {
		if converted, err := value(v, b); err == nil {
			return converted, nil
		}
	}
	return nil, fmt.Errorf("%v is of no branch of the union", v)
}

func list(v any, t resolved) (any, error) {
	from, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("%v is no array", v)
	}
	all := make([]any, len(from))
	for i := range from {
		var err error
		if all[i], err = value(from[i], t.elements[0]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// object returns a JSON object whose values have the types that typeOf returns for their keys. A key without a type
// keeps its value.
func object(v any, typeOf func(key string) (resolved, bool)) (any, error) {
	from, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%v is no object", v)
	}
	all := make(map[string]any, len(from))
	for key, one := range from {
		t, known := typeOf(key)
		if !known {
			return nil, fmt.Errorf("%q is not in the schema", key)
		}
		var err error
		if all[key], err = value(one, t); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func fields(v any, d *named) (any, error) {
	if d.open {
		return nil, fmt.Errorf("it is of %s, not all of which is known there", d.full)
	}
	all, err := object(v, func(key string) (resolved, bool) {
		i := slices.IndexFunc(d.node.Fields, func(f Field) bool { return f.Name == key })
		if i < 0 {
			return resolved{}, false
		}
		return d.types[i], true
	})
	if err != nil {
		return nil, err
	}
	for i, f := range d.node.Fields {
		nullFirst := len(d.types[i].elements) > 0 && f.Type.Type == "union" && d.types[i].elements[0].node.Type == "null"
		if _, has := all.(map[string]any)[f.Name]; !has && !f.HasDefault && !nullFirst {
			return nil, fmt.Errorf("%q is missing", f.Name)
		}
	}
	return all, nil
}

func number(v any, kind string) (any, error) {
	n, ok := v.(json.Number)
	if !ok {
		return nil, fmt.Errorf("%v is no %s", v, kind)
	}
	switch kind {
	case "int":
		i, err := strconv.ParseInt(string(n), 10, 32)
		return int32(i), err
	case "long":
		return strconv.ParseInt(string(n), 10, 64)
	case "float":
		f, err := strconv.ParseFloat(string(n), 32)
		return float32(f), err
	}
	return strconv.ParseFloat(string(n), 64)
}

// octets returns the bytes of a string of ISO 8859-1 characters.
func octets(v any, n *Node) (any, error) {
	text, ok := v.(string)
	if !ok {
		return nil, fmt.Errorf("%v is no %s", v, n.Type)
	}
	b := make([]byte, 0, len(text))
	for _, r := range text {
		if r > 0xff {
			return nil, errors.New("it has a character beyond U+00FF")
		}
		b = append(b, byte(r))
	}
	if n.Type == "fixed" && len(b) != n.Size {
		return nil, fmt.Errorf("it has %d bytes in place of %d", len(b), n.Size)
	}
	return b, nil
}
