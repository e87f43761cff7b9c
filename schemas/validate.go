package schemas

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"sort"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// Violation is a rule of a schema that a value does not meet.
type Violation struct {
	// InstancePointer is the JSON pointer (RFC 6901) of the offending value. For required it is the object that lacks
	// Property, for additionalProperties the unknown property.
	InstancePointer string
	// Keyword is the schema keyword: required, additionalProperties, type, enum, …
	Keyword string
	// Property is the missing or unknown property, otherwise empty.
	Property string
	// Want is the value of the keyword: allowed values for enum, names of types for type, known properties for
	// additionalProperties, the bound for minimum or maxLength.
	Want []string
	// Message is the message of the validator.
	Message string
}

// Validate returns the violations that keep v from being valid, ordered by pointer; nil if there are none. v consists
// of map[string]any, []any, string, bool, nil and numbers.
func (d *Document) Validate(v any) []Violation { return d.load().validate(v) }

func (d *document) validate(v any) []Violation {
	err := d.schema.Validate(v)
	if err == nil {
		return nil
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return []Violation{{Keyword: "type", Message: err.Error()}}
	}
	found := d.collect(invalid, v, nil)
	sort.SliceStable(found, func(i, j int) bool {
		a, b := &found[i], &found[j]
		return cmp.Or(cmp.Compare(a.InstancePointer, b.InstancePointer), cmp.Compare(a.Property, b.Property)) < 0
	})
	return found
}

// collect appends the violations of the leaves below e.
func (d *document) collect(e *jsonschema.ValidationError, v any, found []Violation) []Violation {
	for _, cause := range e.Causes {
		found = d.collect(cause, v, found)
	}
	if len(e.Causes) > 0 {
		return found
	}
	_, fragment, _ := strings.Cut(e.AbsoluteKeywordLocation, "#")
	at := unescape(fragment)
	instance := unescape(e.InstanceLocation)
	leaf := Violation{InstancePointer: instance, Keyword: at[strings.LastIndexByte(at, '/')+1:], Message: e.Message}
	switch leaf.Keyword {
	case "required":
		return append(found, d.missing(leaf, at, v)...)
	case "additionalProperties":
		return append(found, d.unknown(leaf, at, v)...)
	}
	leaf.Want = words(AtPointer(d.source, at))
	return append(found, leaf)
}

// missing returns a violation for each property that is required at and absent from v.
func (d *document) missing(leaf Violation, at string, v any) []Violation {
	object, _ := AtPointer(v, leaf.InstancePointer).(map[string]any)
	var found []Violation
	for _, name := range words(AtPointer(d.source, at)) {
		if _, ok := object[name]; !ok {
			leaf.Property = name
			found = append(found, leaf)
		}
	}
	return found
}

// unknown returns a violation for each property of v that the schema at does not name.
func (d *document) unknown(leaf Violation, at string, v any) []Violation {
	schema := strings.TrimSuffix(at, "/additionalProperties")
	known, _ := AtPointer(d.source, schema+"/properties").(map[string]any)
	patterns, _ := AtPointer(d.source, schema+"/patternProperties").(map[string]any)
	object, _ := AtPointer(v, leaf.InstancePointer).(map[string]any)
	leaf.Want = slices.Sorted(maps.Keys(known))
	var found []Violation
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if _, ok := known[name]; ok || matches(patterns, name) {
			continue
		}
		one := leaf
		one.InstancePointer += "/" + EscapePointer(name)
		one.Property = name
		found = append(found, one)
	}
	return found
}

func matches(patterns map[string]any, name string) bool {
	for p := range patterns {
		if regexp.MustCompile(p).MatchString(name) {
			return true
		}
	}
	return false
}

// unescape undoes the URL escaping the validator adds to JSON pointers.
func unescape(location string) string {
	if s, err := url.PathUnescape(location); err == nil {
		return s
	}
	return location
}

// words returns the text of v, or of each element when v is a list.
func words(v any) []string {
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		return []string{v}
	case []any:
		var all []string
		for _, e := range v {
			all = append(all, words(e)...)
		}
		return all
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return []string{string(text)}
}
