package redact

import (
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/texts"
)

// URL parsers cut an unescaped password within a URL into pieces: one piece is taken for the host, is looked up, and
// appears in the error. The pieces of secrets are therefore redacted, too.

// delimiters are the characters at which URLs are cut.
const delimiters = "@/:#?%&="

// maxPieces bounds the pieces of a value: every text is searched for every piece.
const maxPieces = 16

// addPieces makes r replace the pieces of a secret by reference.
func (r *Redactor) addPieces(reference, value string) {
	pieces := strings.FieldsFunc(value, func(c rune) bool { return strings.ContainsRune(delimiters, c) })
	pieces = slices.DeleteFunc(pieces, func(p string) bool { return !isTelling(p) })
	for _, p := range pieces[:min(len(pieces), maxPieces)] {
		r.add(reference, p)
		r.add(reference, strings.ToLower(p)) // host names may be shown in lower case
	}
}

var (
	oneReference = texts.Regexp(`^\$(\w+|\{[^{}]*\})$`)
	keptSecret   = texts.Regexp(`^\$\{(file|credential):`)
	pathOrHost   = texts.Regexp(`^(?:[.~]{0,2}/[\w./-]*|\[?[\w.:-]+\]?:\d+|[\w.-]+)$`)
)

// secretsIn returns the secrets to cut into pieces in the value of reference: the password if the value is a URL, else
// the value itself, unless it comes from a variable that names a file or host, or contains references.
func secretsIn(reference, value string) []string {
	value = strings.TrimSpace(value)
	if strings.Contains(value, "\n") || strings.HasPrefix(value, "{") || strings.HasPrefix(value, "[") {
		return nil // each line is redacted separately
	}
	if _, rest, isURL := strings.Cut(value, "://"); isURL {
		at := strings.LastIndexByte(rest, '@')
		if at < 0 {
			return nil
		}
		_, password, both := strings.Cut(rest[:at], ":")
		if !both {
			password = rest[:at]
		}
		all := []string{password}
		if plain, err := url.PathUnescape(password); err == nil && plain != password {
			all = append(all, plain)
		}
		return all
	}
	switch {
	case reference != spec.Redacted && !oneReference().MatchString(reference):
		return nil
	case reference != spec.Redacted && !keptSecret().MatchString(reference) && pathOrHost().MatchString(value):
		return nil
	}
	return []string{value}
}

// isTelling reports whether a piece reveals part of a secret: it has at least four characters and is not a plain word
// or number, which any text may contain, but mixes letters with digits or other characters, or upper with lower case.
func isTelling(piece string) bool {
	var lower, upper, digit, symbol int
	for i, c := range piece {
		switch {
		case unicode.IsDigit(c):
			digit++
		case unicode.IsUpper(c) && i > 0:
			upper++
		case unicode.IsLetter(c):
			lower++
		case !strings.ContainsRune("._- ", c):
			symbol++
		}
	}
	letters := lower + upper
	switch {
	case len(piece) < shortValue:
		return false
	case symbol > 0, letters > 0 && digit > 0:
		return true
	case letters == 0:
		return digit >= longValue
	}
	return lower > 1 && upper > 0
}
