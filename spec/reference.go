package spec

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/conduit-agent/conduit/spec/texts"
)

// Reference is a use of a value from outside the pipeline.
type Reference struct {
	Path     string // JSON pointer of the text within the pipeline
	Kind     string // name of the kind
	Argument string // name of the variable or credential, or path of the file
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
	template bool   // it is $NAME within {{ and }}
}

var variableName = texts.Regexp(`^[A-Za-z_][A-Za-z0-9_]*`)

// Scan returns the references of text, without their Path, or a description of the fault in them.
func (kinds ReferenceKinds) Scan(text string) (found []Reference, problem string) {
	pieces, problem := kinds.cut(text)
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
	pieces, problem := ReferenceKinds(nil).cut(text)
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

// cut splits text into literals and references, up to the first malformed one.
func (kinds ReferenceKinds) cut(text string) (pieces []piece, problem string) {
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
			p, problem := kinds.braced(inner)
			if problem != "" {
				return pieces, problem
			}
			p.source = "${" + inner + "}"
			pieces, text = append(pieces, p), rest
		default:
			if name := variableName().FindString(after); name != "" {
				p := piece{Reference: Reference{Kind: EnvReference, Argument: name}, source: "$" + name,
					template: inTemplate(pieces)}
				if p.template && declaration().MatchString(after[len(name):]) {
					return pieces, fmt.Sprintf("$%s is an environment variable: a variable of a template is written $$%[1]s "+
						"in a setting", name)
				}
				if problem := kinds.fault(p.Reference, p.source); problem != "" {
					return pieces, problem
				}
				pieces = append(pieces, p)
				text = after[len(name):]
			} else {
				pieces = append(pieces, piece{literal: "$"})
				text = after
			}
		}
	}
}

// declaration matches the text after the name of a variable that a template declares or sets.
var declaration = texts.Regexp(`^\s*(,\s*\$+[A-Za-z_][A-Za-z0-9_]*\s*)?:?=`)

// inTemplate reports whether the text of the pieces ends within {{ and }}.
func inTemplate(pieces []piece) bool {
	for _, p := range slices.Backward(pieces) {
		if begin := strings.LastIndex(p.literal, "{{"); begin >= 0 || strings.Contains(p.literal, "}}") {
			return begin > strings.LastIndex(p.literal, "}}")
		}
	}
	return false
}

// braced parses the text between ${ and }.
func (kinds ReferenceKinds) braced(inner string) (piece, string) {
	name := variableName().FindString(inner)
	rest := inner[len(name):]
	p := piece{Reference: Reference{Kind: EnvReference, Argument: name}}
	switch {
	case strings.Contains(inner, "${"):
		return p, fmt.Sprintf("the reference ${%s} contains another reference, which is not supported", inner)
	case name != "" && rest == "":
	case name != "" && strings.HasPrefix(rest, ":-"):
		p.Optional, p.strict, p.fallback = true, true, rest[2:]
	case name != "" && strings.HasPrefix(rest, ":?"):
		p.strict, p.demand = true, rest[2:]
	case name != "" && name == strings.ToLower(name) && len(rest) > 1 && rest[0] == ':':
		p.Kind, p.Argument = name, rest[1:]
	default:
		return p, fmt.Sprintf("${%s} is not a reference: %s", inner, kinds.advice())
	}
	return p, kinds.fault(p.Reference, "${"+inner+"}")
}

// Lookup finds the values of references. The zero Lookup refuses all references.
type Lookup struct {
	Kinds ReferenceKinds
	// Early refuses the kinds whose values are not known when a file is read.
	Early bool
	// Read, when set, reads values in place of the function of the kind.
	Read func(kind *ReferenceKind, argument string) (string, error)
	// Found, when set, is called with the value of every reference, and of every text that
	// holds references.
	Found func(declared, value string)
}

// Expand returns text with its references replaced. A value stays a single value in its context: within a URL it is
// escaped as a URL component, unless it is the host; within key=value pairs of PostgreSQL and JSON strings it is
// escaped by their rules. If text is a single reference, Expand returns the value unchanged.
func (l Lookup) Expand(text string) (string, error) {
	pieces, problem := ReferenceKinds(nil).cut(text)
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
	if p.Kind == "" {
		return p.literal, nil
	}
	kind := l.Kinds.find(p.Kind)
	switch problem := l.Kinds.fault(p.Reference, p.source); {
	case l.Early && (kind == nil || !kind.Early), l.Kinds == nil:
		return "", fmt.Errorf("%s cannot be used here", p.title())
	case problem != "":
		return "", errors.New(problem)
	}
	value, err := l.read(kind, p.Argument)
	switch {
	case p.Kind == EnvReference && (errors.Is(err, ErrUnset) || err == nil && value == "" && p.strict):
		return p.unset()
	case p.Kind == EnvReference:
		return value, err
	case err != nil:
		return "", fmt.Errorf("cannot read %s: %w", p.title(), err)
	}
	if line, ok := strings.CutSuffix(value, "\n"); ok {
		return strings.TrimSuffix(line, "\r"), nil
	}
	return value, nil
}

func (l Lookup) read(kind *ReferenceKind, argument string) (string, error) {
	if l.Read != nil {
		return l.Read(kind, argument)
	}
	return kind.Read(context.Background(), argument, ReferenceAccess{})
}

// title names the target of a reference.
func (r *Reference) title() string {
	if r.Kind == EnvReference {
		return "environment variable " + r.Argument
	}
	return r.Kind + " " + r.Argument
}

// unset returns the value of a reference to a variable that is not set.
func (p *piece) unset() (string, error) {
	switch {
	case p.Optional:
		return p.fallback, nil
	case p.demand != "":
		return "", fmt.Errorf("environment variable %s is not set: %s", p.Argument, p.demand)
	}
	if p.template {
		return "", fmt.Errorf("environment variable %s is not set: a variable of a template is written $$%[1]s in a "+
			"setting; for the environment variable, set it for the agent, or write ${%[1]s:-default}", p.Argument)
	}
	return "", fmt.Errorf("environment variable %s is not set: set it for the agent, write ${%s:-default}, or $$ for "+
		"a literal $", p.Argument, p.Argument)
}
