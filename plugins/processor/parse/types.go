package parse

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// typed is the setting for the types of values.
type typed struct {
	// Comma list of name:type, with * for all other names. The types are string, int, float, bool, time (RFC 3339, or
	// Unix nanoseconds) and auto, which makes numbers of JSON's numbers and booleans of true and false. Without a type
	// a value is a string. An empty text is null, unless it is a string.
	Types []string `json:"types"`
}

// read returns the value of a text; nil: the text itself.
type read func(text string) (any, error)

// types are the types of values by name.
type types struct {
	named map[string]read
	rest  read
}

// compileTypes reads the setting. names are the names that it may have; nil: all.
func (t *typed) compileTypes(names []string) (types, error) {
	all := types{named: map[string]read{}}
	for _, item := range t.Types {
		i := strings.LastIndexByte(item, ':')
		if i < 0 {
			return all, wrongType("want name:type, not " + quoted(item))
		}
		name, kind := strings.TrimSpace(item[:i]), strings.TrimSpace(item[i+1:])
		f, ok := readers[kind]
		switch _, twice := all.named[name]; {
		case !ok:
			return all, wrongType("want string, int, float, bool, time or auto as the type of " + quoted(name) +
				", not " + quoted(kind))
		case twice:
			return all, wrongType(quoted(name) + " has two types")
		case name == "*":
			all.rest = f
		case names != nil && !slices.Contains(names, name):
			return all, wrongType("there is no " + quoted(name))
		default:
			all.named[name] = f
		}
	}
	return all, nil
}

func wrongType(message string) error { return sdk.SettingError{Setting: "types", Message: message} }

// of returns the type of a name.
func (t *types) of(name string) read {
	if f, ok := t.named[name]; ok {
		return f
	}
	return t.rest
}

// value returns the value of a text with a name.
func (f read) value(name, text string) (any, error) {
	if f == nil {
		return text, nil
	}
	v, err := f(text)
	if err != nil {
		return nil, fmt.Errorf("%s: cannot read %s as %w", quoted(name), quoted(text), err)
	}
	return v, nil
}

var readers = map[string]read{
	"string": nil,
	"int": orNull("an integer", func(text string) (any, bool) {
		n, err := strconv.ParseInt(text, 10, 64)
		return n, err == nil
	}),
	"float": orNull("a number", func(text string) (any, bool) {
		f, err := strconv.ParseFloat(text, 64)
		// JSON has no infinity, and nothing but numbers.
		return f, err == nil && !math.IsInf(f, 0) && !math.IsNaN(f)
	}),
	"bool": orNull("a boolean", func(text string) (any, bool) {
		b, err := strconv.ParseBool(text)
		return b, err == nil
	}),
	"time": orNull("a time", func(text string) (any, bool) {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return time.Unix(0, n).UTC(), true
		}
		t, err := time.Parse(time.RFC3339Nano, text)
		return t, err == nil
	}),
	"auto": func(text string) (any, error) {
		switch {
		case record.IsNumber(text):
			return record.Number(text), nil
		case text == "true" || text == "false":
			return text == "true", nil
		}
		return text, nil
	},
}

// orNull returns a read that returns null for an empty text, and the error wants for a text that f does not accept.
func orNull(wants string, f func(text string) (any, bool)) read {
	err := errors.New(wants)
	return func(text string) (any, error) {
		if text == "" {
			return nil, nil
		}
		if v, ok := f(text); ok {
			return v, nil
		}
		return nil, err
	}
}

// typeNames are the types of values.
var typeNames = slices.Sorted(maps.Keys(readers))
