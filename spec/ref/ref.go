// Package ref parses references in the texts of a pipeline, such as ${VAR} or ${file:/path}, and replaces them by their
// values.
package ref

import (
	"fmt"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/spec/texts"
)

// Kind is the kind of source from which a reference gets its value.
type Kind string

// The kinds of references.
const (
	Env        Kind = "env"        // $VAR, ${VAR}, ${VAR:-default}, ${VAR:?message}
	File       Kind = "file"       // ${file:/path}
	Credential Kind = "credential" // ${credential:name}
)

// Reference is a use of a value from outside the pipeline.
type Reference struct {
	Path     string // JSON pointer of the text within the pipeline
	Kind     Kind
	Name     string // of the variable or credential, or the path of the file
	Optional bool   // it has a default
}

// piece is a part of a text: literal, or a reference.
type piece struct {
	Reference
	source   string // of a reference
	literal  string
	fallback string // for ${VAR:-fallback}
	demand   string // for ${VAR:?demand}
	strict   bool   // an empty value counts as unset
}

var (
	variable   = texts.Regexp(`^[A-Za-z_][A-Za-z0-9_]*`)
	credential = texts.Regexp(`^[A-Za-z0-9._-]+$`)
)

// Scan returns the references of text, without their Path, or a description of the fault in them.
func Scan(text string) (found []Reference, problem string) {
	pieces, problem := cut(text)
	for _, p := range pieces {
		if p.Kind != "" {
			found = append(found, p.Reference)
		}
	}
	return found, problem
}

// Literal returns the meaning of a text without references: $$ is $. It returns false when text has references, or is
// malformed.
func Literal(text string) (string, bool) {
	pieces, problem := cut(text)
	if problem != "" {
		return "", false
	}
	var b strings.Builder
	for _, p := range pieces {
		if p.Kind != "" {
			return "", false
		}
		b.WriteString(p.literal)
	}
	return b.String(), true
}

// Escape returns a text that stands for text where references are replaced. It returns text itself when nothing in it
// would be taken for a reference.
func Escape(text string) string {
	if literal, ok := Literal(text); ok && literal == text {
		return text
	}
	return strings.ReplaceAll(text, "$", "$$")
}

// cut splits text into literals and references, up to the first malformed one.
func cut(text string) (pieces []piece, problem string) {
	for {
		before, after, found := strings.Cut(text, "$")
		pieces = append(pieces, piece{literal: before})
		switch {
		case !found:
			return pieces, ""
		case strings.HasPrefix(after, "$"):
			pieces = append(pieces, piece{literal: "$"})
			text = after[1:]
		case strings.HasPrefix(after, "{"):
			inner, rest, closed := strings.Cut(after[1:], "}")
			if !closed {
				return pieces, "the reference ${ is not closed with }; write $${ for a literal ${"
			}
			p, problem := braced(inner)
			if problem != "" {
				return pieces, problem
			}
			p.source = "${" + inner + "}"
			pieces, text = append(pieces, p), rest
		default:
			if name := variable().FindString(after); name != "" {
				pieces = append(pieces, piece{Reference: Reference{Kind: Env, Name: name}, source: "$" + name})
				text = after[len(name):]
			} else {
				pieces = append(pieces, piece{literal: "$"})
				text = after
			}
		}
	}
}

// braced parses the text between ${ and }.
func braced(inner string) (piece, string) {
	name := variable().FindString(inner)
	rest := inner[len(name):]
	p := piece{Reference: Reference{Kind: Env, Name: name}}
	switch {
	case strings.Contains(inner, "${"):
		return p, fmt.Sprintf("the reference ${%s} contains another one, which is not supported", inner)
	case name != "" && rest == "":
		return p, ""
	case name != "" && strings.HasPrefix(rest, ":-"):
		p.Optional, p.strict, p.fallback = true, true, rest[2:]
		return p, ""
	case name != "" && strings.HasPrefix(rest, ":?"):
		p.strict, p.demand = true, rest[2:]
		return p, ""
	case name == "file" && strings.HasPrefix(rest, ":/"):
		p.Kind, p.Name = File, rest[1:]
		return p, ""
	case name == "file" && strings.HasPrefix(rest, ":"):
		return p, fmt.Sprintf("the path of ${%s} must be absolute", inner)
	case name == "credential" && strings.HasPrefix(rest, ":") && credential().MatchString(rest[1:]):
		p.Kind, p.Name = Credential, rest[1:]
		return p, ""
	}
	return p, fmt.Sprintf("${%s} is not a reference: write ${VAR}, ${VAR:-default}, ${VAR:?message}, ${file:/path} or ${credential:name}, or $${ for a literal ${", inner)
}

// Lookup finds the values of references. A nil function refuses its kind.
type Lookup struct {
	Env func(name string) (value string, ok bool)
	// AllowEnv, when set, returns the reason why a reference may not use an environment variable.
	AllowEnv   func(name string) error
	File       func(path string) (string, error)
	Credential func(name string) (string, error)
	// Found, when set, is called with the value of every reference, and of every text that
	// holds references.
	Found func(declared, value string)
}

// Expand returns text with its references replaced. A value stays a single value in its context: within a URL it is
// escaped as a URL component, unless it is the host; within key=value pairs of PostgreSQL and JSON strings it is
// escaped by their rules. If text is a single reference, Expand returns the value unchanged.
func (l Lookup) Expand(text string) (string, error) {
	pieces, problem := cut(text)
	if problem != "" {
		return "", fmt.Errorf("%s", problem)
	}
	var b strings.Builder
	in := contexts(pieces)
	for _, p := range pieces {
		value, err := l.value(p)
		if err != nil {
			return "", err
		}
		if p.source == "" {
			b.WriteString(value)
			continue
		}
		b.WriteString(in[0].write(value))
		in = in[1:]
		l.found(p.source, value)
	}
	if slices.ContainsFunc(pieces, func(p piece) bool { return p.source != "" }) {
		l.found(text, b.String())
	}
	return b.String(), nil
}

func (l Lookup) found(declared, value string) {
	if l.Found != nil {
		l.Found(declared, value)
	}
}

func (l Lookup) value(p piece) (string, error) {
	switch p.Kind {
	case Env:
		return l.env(p)
	case File:
		return read(l.File, "file", p.Name)
	case Credential:
		return read(l.Credential, "credential", p.Name)
	}
	return p.literal, nil
}

func (l Lookup) env(p piece) (string, error) {
	if l.Env == nil {
		return "", fmt.Errorf("environment variable %s cannot be used here", p.Name)
	}
	if l.AllowEnv != nil {
		if err := l.AllowEnv(p.Name); err != nil {
			return "", err
		}
	}
	value, ok := l.Env(p.Name)
	switch {
	case ok && (value != "" || !p.strict):
		return value, nil
	case p.Optional:
		return p.fallback, nil
	case p.demand != "":
		return "", fmt.Errorf("environment variable %s is not set: %s", p.Name, p.demand)
	}
	return "", fmt.Errorf("environment variable %s is not set: set it for the agent, write ${%s:-default}, or $$ for a literal $", p.Name, p.Name)
}

func read(from func(string) (string, error), what, name string) (string, error) {
	if from == nil {
		return "", fmt.Errorf("%s %s cannot be used here", what, name)
	}
	value, err := from(name)
	if err != nil {
		return "", fmt.Errorf("cannot read %s %s: %w", what, name, err)
	}
	if line, ok := strings.CutSuffix(value, "\n"); ok {
		return strings.TrimSuffix(line, "\r"), nil
	}
	return value, nil
}
