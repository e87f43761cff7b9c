// Package fieldref has references to the fields of a record, such as .Key.id or .Payload.After["first name"], compiled
// once and used for every record.
package fieldref

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/plugins/schema"
)

// Root is the part of a record that a reference begins with.
type Root uint8

// The roots. Whole is the record itself.
const (
	Whole Root = iota
	Position
	Operation
	Metadata
	Key
	Payload
	Before
	After
)

var rootNames = [...]string{".", ".Position", ".Operation", ".Metadata", ".Key", ".Payload", ".Payload.Before",
	".Payload.After"}

// Ref is a reference to a field. It is safe for concurrent use.
type Ref struct {
	root  Root
	path  []string    // below the root
	found atomic.Bool // a record had the field
}

// Parse parses a reference: an optional '$', then '.' alone for the whole record, or names that each follow a '.', or
// text in ["…"]. The names of the parts of a record may begin with a lowercase letter.
func Parse(text string) (*Ref, error) {
	segments, err := split(strings.TrimPrefix(text, "$"))
	if err != nil {
		return nil, fmt.Errorf("cannot read reference %q: %w", text, err)
	}
	ref, err := resolve(segments)
	if err != nil {
		return nil, fmt.Errorf("cannot resolve reference %q: %w", text, err)
	}
	return ref, nil
}

// ParseList parses references separated by commas.
func ParseList(text string) ([]*Ref, error) {
	var refs []*Ref
	for _, item := range splitList(text) {
		ref, err := Parse(strings.TrimSpace(item))
		if err != nil {
			return nil, err
		}
		refs = append(refs, ref)
	}
	return refs, nil
}

// splitList splits text at the commas outside ["…"].
func splitList(text string) []string {
	var items []string
	quoted, start := false, 0
	for i := range len(text) {
		switch {
		case text[i] == '"':
			quoted = !quoted
		case text[i] == ',' && !quoted:
			items = append(items, text[start:i])
			start = i + 1
		}
	}
	return append(items, text[start:])
}

func split(text string) ([]string, error) {
	if text == "." {
		return nil, nil
	}
	if text == "" {
		return nil, fmt.Errorf("it is empty; want for example .Payload.After.name")
	}
	var segments []string
	for text != "" {
		var segment string
		var err error
		switch {
		case text[0] == '.':
			segment, text, err = splitName(text[1:])
		case strings.HasPrefix(text, `["`) && len(segments) > 0:
			segment, text, err = splitQuoted(text[2:])
		default:
			r, _ := utf8.DecodeRuneInString(text)
			err = fmt.Errorf("unexpected character %q: want '.' and a name, or [\"text\"] behind a name", r)
		}
		if err != nil {
			return nil, err
		}
		segments = append(segments, segment)
	}
	return segments, nil
}

func splitName(text string) (name, rest string, err error) {
	end := len(text)
	for i, r := range text {
		if r == '.' || r == '[' {
			end = i
			break
		}
		if !(r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r)) || i == 0 && r >= '0' && r <= '9' {
			return "", "", fmt.Errorf("bad character %q in a name: write [\"…\"] for names of other than letters, "+
				"digits and '_'", r)
		}
	}
	if end == 0 {
		return "", "", fmt.Errorf("a name is missing behind '.'")
	}
	return text[:end], text[end:], nil
}

func splitQuoted(text string) (name, rest string, err error) {
	end := strings.Index(text, `"]`)
	if end < 0 {
		return "", "", fmt.Errorf(`["%s has no end: "]`, text)
	}
	return text[:end], text[end+2:], nil
}

func resolve(segments []string) (*Ref, error) {
	if len(segments) == 0 {
		return &Ref{root: Whole}, nil
	}
	name, rest := upperFirst(segments[0]), segments[1:]
	switch name {
	case "Position", "Operation":
		if len(rest) > 0 {
			return nil, fmt.Errorf("unexpected field %q: .%s has no fields", rest[0], name)
		}
		return &Ref{root: map[string]Root{"Position": Position, "Operation": Operation}[name]}, nil
	case "Metadata":
		if len(rest) > 1 {
			return nil, fmt.Errorf("unexpected field %q: .Metadata fields are not structured; write "+
				".Metadata[\"a.b\"] for a key with dots", rest[1])
		}
		return &Ref{root: Metadata, path: rest}, nil
	case "Key":
		return &Ref{root: Key, path: rest}, nil
	case "Payload":
		return resolvePayload(rest)
	}
	return nil, fmt.Errorf("unexpected field %q: a record has .Position, .Operation, .Metadata, .Key and .Payload",
		segments[0])
}

func resolvePayload(rest []string) (*Ref, error) {
	if len(rest) == 0 {
		return &Ref{root: Payload}, nil
	}
	switch upperFirst(rest[0]) {
	case "Before":
		return &Ref{root: Before, path: rest[1:]}, nil
	case "After":
		return &Ref{root: After, path: rest[1:]}, nil
	}
	return nil, fmt.Errorf("unexpected field %q: .Payload has .Before and .After", rest[0])
}

func upperFirst(s string) string { return strings.ToUpper(s[:min(1, len(s))]) + s[min(1, len(s)):] }

// String returns the reference in its canonical form.
func (f *Ref) String() string {
	s := rootNames[f.root]
	for _, name := range f.path {
		if n, rest, err := splitName(name); err == nil && n == name && rest == "" {
			s += "." + name
		} else {
			s += `["` + name + `"]`
		}
	}
	return s
}

// Root returns the part of a record that the reference begins with.
func (f *Ref) Root() Root { return f.root }

// IsNested reports whether the reference is to a field below its root.
func (f *Ref) IsNested() bool { return len(f.path) > 0 }

// Sibling returns the reference to the field with that name in the same map. f must be nested.
func (f *Ref) Sibling(name string) *Ref {
	last := len(f.path) - 1
	return &Ref{root: f.root, path: append(f.path[:last:last], name)}
}

// Parts returns the part of a record in which the reference reads structured data.
func (f *Ref) Parts() schema.Parts {
	return schema.Parts{
		Key:     f.root == Key || f.root == Whole,
		Payload: f.root >= Payload || f.root == Whole,
	}
}

// PartsOf returns the union of the parts that the references read.
func PartsOf(refs ...*Ref) (p schema.Parts) {
	for _, f := range refs {
		if f != nil {
			q := f.Parts()
			p.Key, p.Payload = p.Key || q.Key, p.Payload || q.Payload
		}
	}
	return p
}

// Of returns the reference to a root.
func Of(root Root) *Ref { return &Ref{root: root} }

// Name returns the last name of a nested reference.
func (f *Ref) Name() string { return f.path[len(f.path)-1] }

// Child returns the reference to the field with that name inside f.
func (f *Ref) Child(name string) *Ref {
	return &Ref{root: f.root, path: append(f.path[:len(f.path):len(f.path)], name)}
}

// NeverFound returns the nested fields that no record had in Get, Delete, Rename or Find so far.
func NeverFound(refs ...*Ref) []string {
	var never []string
	for _, f := range refs {
		if !f.IsNested() || f.found.Load() {
			continue
		}
		if name := f.String(); !slices.Contains(never, name) {
			never = append(never, name)
		}
	}
	return never
}
