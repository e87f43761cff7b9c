package spec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/spec/texts"
)

// ReferenceKind is the kind of source from which a reference gets its value.
type ReferenceKind string

// The kinds of references.
const (
	EnvReference        ReferenceKind = "env"        // $VAR, ${VAR}, ${VAR:-default}, ${VAR:?message}
	FileReference       ReferenceKind = "file"       // ${file:/path}
	CredentialReference ReferenceKind = "credential" // ${credential:name}
)

// Reference is a use of a value from outside the pipeline.
type Reference struct {
	Path     string // JSON pointer of the text within the pipeline
	Kind     ReferenceKind
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
	variableName   = texts.Regexp(`^[A-Za-z_][A-Za-z0-9_]*`)
	credentialName = texts.Regexp(`^[A-Za-z0-9._-]+$`)
)

// ScanReferences returns the references of text, without their Path, or a description of the fault in them.
func ScanReferences(text string) (found []Reference, problem string) {
	pieces, problem := cutReferences(text)
	for _, p := range pieces {
		if p.Kind != "" {
			found = append(found, p.Reference)
		}
	}
	return found, problem
}

// LiteralText returns the meaning of a text without references: $$ is $. It returns false when text has references, or
// is malformed.
func LiteralText(text string) (string, bool) {
	pieces, problem := cutReferences(text)
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

// EscapeReferences returns a text that stands for text where references are replaced. It returns text itself when
// nothing in it would be taken for a reference.
func EscapeReferences(text string) string {
	if literal, ok := LiteralText(text); ok && literal == text {
		return text
	}
	return strings.ReplaceAll(text, "$", "$$")
}

// cutReferences splits text into literals and references, up to the first malformed one.
func cutReferences(text string) (pieces []piece, problem string) {
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
			p, problem := bracedReference(inner)
			if problem != "" {
				return pieces, problem
			}
			p.source = "${" + inner + "}"
			pieces, text = append(pieces, p), rest
		default:
			if name := variableName().FindString(after); name != "" {
				pieces = append(pieces, piece{Reference: Reference{Kind: EnvReference, Name: name}, source: "$" + name})
				text = after[len(name):]
			} else {
				pieces = append(pieces, piece{literal: "$"})
				text = after
			}
		}
	}
}

// bracedReference parses the text between ${ and }.
func bracedReference(inner string) (piece, string) {
	name := variableName().FindString(inner)
	rest := inner[len(name):]
	p := piece{Reference: Reference{Kind: EnvReference, Name: name}}
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
		p.Kind, p.Name = FileReference, rest[1:]
		return p, ""
	case name == "file" && strings.HasPrefix(rest, ":"):
		return p, fmt.Sprintf("the path of ${%s} must be absolute", inner)
	case name == "credential" && strings.HasPrefix(rest, ":") && credentialName().MatchString(rest[1:]):
		p.Kind, p.Name = CredentialReference, rest[1:]
		return p, ""
	}
	return p, fmt.Sprintf("${%s} is not a reference: write ${VAR}, ${VAR:-default}, ${VAR:?message}, ${file:/path} "+
		"or ${credential:name}, or $${ for a literal ${", inner)
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
	pieces, problem := cutReferences(text)
	if problem != "" {
		return "", fmt.Errorf("%s", problem)
	}
	var b strings.Builder
	in := refContexts(pieces)
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
	case EnvReference:
		return l.env(p)
	case FileReference:
		return readReference(l.File, "file", p.Name)
	case CredentialReference:
		return readReference(l.Credential, "credential", p.Name)
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
	return "", fmt.Errorf("environment variable %s is not set: set it for the agent, write ${%s:-default}, or $$ for "+
		"a literal $", p.Name, p.Name)
}

func readReference(from func(string) (string, error), what, name string) (string, error) {
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
