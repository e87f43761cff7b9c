package spec

import (
	"fmt"
	"regexp"
	"strings"
)

// ReferenceKind says where a reference gets its value from.
type ReferenceKind string

// The kinds of references.
const (
	ReferenceEnv        ReferenceKind = "env"        // $VAR, ${VAR}, ${VAR:-default}, ${VAR:?message}
	ReferenceFile       ReferenceKind = "file"       // ${file:/path}
	ReferenceCredential ReferenceKind = "credential" // ${credential:name}
)

// Reference is one use of a value that is not in the pipeline itself.
type Reference struct {
	Path     string // JSON pointer within the pipeline of the text it stands in
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
	variable   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*`)
	credential = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
)

// scan returns the references of text, or what is wrong with them.
func scan(text string) ([]piece, string) {
	pieces, problem := cut(text)
	var refs []piece
	for _, p := range pieces {
		if p.Kind != "" {
			refs = append(refs, p)
		}
	}
	return refs, problem
}

// Literal returns what text stands for when it has no references: $$ is $. It returns false
// when it has some, or is not well formed.
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

// cut cuts text into literals and references, up to the first that is not well formed.
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
			if name := variable.FindString(after); name != "" {
				pieces = append(pieces, piece{Reference: Reference{Kind: ReferenceEnv, Name: name}, source: "$" + name})
				text = after[len(name):]
			} else {
				pieces = append(pieces, piece{literal: "$"})
				text = after
			}
		}
	}
}

// braced reads what stands between ${ and }.
func braced(inner string) (piece, string) {
	name := variable.FindString(inner)
	rest := inner[len(name):]
	p := piece{Reference: Reference{Kind: ReferenceEnv, Name: name}}
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
		p.Kind, p.Name = ReferenceFile, rest[1:]
		return p, ""
	case name == "file" && strings.HasPrefix(rest, ":"):
		return p, fmt.Sprintf("the path of ${%s} must be absolute", inner)
	case name == "credential" && strings.HasPrefix(rest, ":") && credential.MatchString(rest[1:]):
		p.Kind, p.Name = ReferenceCredential, rest[1:]
		return p, ""
	}
	return p, fmt.Sprintf("${%s} is not a reference: write ${VAR}, ${VAR:-default}, ${VAR:?message}, ${file:/path} or ${credential:name}, or $${ for a literal ${", inner)
}

// References returns every reference in the plugin names and settings of p, in the
// order of its parts. References that are not well formed are left out.
func References(p *Pipeline) []Reference {
	var all []Reference
	eachText(p.Clone(), func(path, _ string, text *string) {
		refs, _ := scan(*text)
		for _, ref := range refs {
			ref.Path = path
			all = append(all, ref.Reference)
		}
	})
	return all
}
