// Package texttype makes typed values of texts, such as the columns of CSV.
package texttype

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec/texts"
)

// A Read returns the value of a text; nil: the text itself.
type Read func(text string) (any, error)

// Types are the types of values by name.
type Types struct {
	named map[string]Read
	rest  Read
}

// Parse reads items of the form name:type, the value of a setting, where * stands for all other names. The types are
// string, int, float, bool, time (RFC 3339, or Unix nanoseconds) and auto, which makes numbers of JSON's numbers and
// booleans of true and false. An empty text is null, unless it is a string. names are the names that the setting may
// have; nil: all.
func Parse(setting string, items, names []string) (Types, error) {
	all := Types{named: map[string]Read{}}
	wrong := func(message string) (Types, error) {
		return all, sdk.SettingError{Setting: setting, Message: message}
	}
	for _, item := range items {
		i := strings.LastIndexByte(item, ':')
		if i < 0 {
			return wrong("want name:type, not " + Quoted(item))
		}
		name, kind := strings.TrimSpace(item[:i]), strings.TrimSpace(item[i+1:])
		f, ok := readers[kind]
		switch _, twice := all.named[name]; {
		case !ok:
			return wrong("want string, int, float, bool, time or auto as the type of " + Quoted(name) +
				", not " + Quoted(kind))
		case twice:
			return wrong(Quoted(name) + " has two types")
		case name == "*":
			all.rest = f
		case names != nil && !slices.Contains(names, name):
			return wrong("there is no " + Quoted(name) + texts.Hint(name, names) + "; the names are " +
				strings.Join(slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == "" }), ", "))
		default:
			all.named[name] = f
		}
	}
	return all, nil
}

// SetDefault gives a name without a type one of Names.
func (t *Types) SetDefault(name, kind string) {
	if _, ok := t.named[name]; !ok {
		t.named[name] = readers[kind]
	}
}

// Reader returns the type of a name.
func (t *Types) Reader(name string) Read {
	if f, ok := t.named[name]; ok {
		return f
	}
	return t.rest
}

// Value returns the value of a text with a name.
func (f Read) Value(name, text string) (any, error) {
	if f == nil {
		return text, nil
	}
	v, err := f(text)
	if err != nil {
		return nil, fmt.Errorf("%s: cannot read %s as %w", Quoted(name), Quoted(text), err)
	}
	return v, nil
}

var readers = map[string]Read{
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

// orNull returns a Read that returns null for an empty text, and the error wants for a text that f does not accept.
func orNull(wants string, f func(text string) (any, bool)) Read {
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

// Names are the names of types.
var Names = slices.Sorted(maps.Keys(readers))

// Quoted returns text in quotes for a message. A long text is cut.
func Quoted(text string) string {
	const most = 60
	if len(text) > most {
		cut := most
		for !utf8.RuneStart(text[cut]) && cut > most-utf8.UTFMax {
			cut--
		}
		return fmt.Sprintf("%q…", text[:cut])
	}
	return fmt.Sprintf("%q", text)
}
