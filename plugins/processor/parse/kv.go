package parse

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/texttype"
)

// kv parses pairs of keys and values.
type kv struct {
	options
	// Text between pairs; tab and newline stand for these characters, and space for any number of spaces, tabs and line
	// breaks.
	Pairs string `json:"pair-separator" default:"space"`
	// Text between a key and its value; tab and space stand for these characters.
	Keys string `json:"key-separator" default:"="`
	// Characters that each may stand around keys and values; none for none. Between them \n, \r, \t, \b, \f and \u with
	// four digits mean the same as in JSON, and \ before another character that is not a letter or digit stands for
	// that character.
	Quotes string `json:"quotes" default:"\""`
	// Text in front of every key.
	Prefix string `json:"prefix"`
	// Value of a key that occurs more than once: the last, the first, or a list of all; refuse makes it an error.
	Duplicates string `json:"duplicates" default:"last" validate:"inclusion=last|first|list|refuse"`
	// Handling of a key without a separator: its value is true or null, in quotes in YAML; drop leaves it out, and
	// refuse makes it an error.
	Bare string `json:"bare" default:"true" validate:"inclusion=true|null|drop|refuse"`
	typed

	types      texttype.Types
	pairs, key string
	quotes     string
	blanks     bool // any blanks separate pairs
}

// blanks are the characters around keys and values that do not belong to them.
const blanks = " \t\r\n"

func (k *kv) compile() (_ parseFunc, err error) {
	k.pairs, k.key, k.quotes = separator(k.Pairs), separator(k.Keys), separator(k.Quotes)
	k.blanks = k.pairs == " "
	switch {
	case k.pairs == "":
		return nil, sdk.SettingError{Setting: "pair-separator", Message: "want a text"}
	case k.key == "":
		return nil, sdk.SettingError{Setting: "key-separator", Message: "want a text"}
	case strings.Contains(k.key, k.pairs) || k.blanks && strings.ContainsAny(k.key, blanks):
		return nil, sdk.SettingError{Setting: "key-separator", Message: "it must not contain what separates pairs"}
	case strings.ContainsFunc(k.quotes, func(c rune) bool { return c >= utf8.RuneSelf || c == '\\' }) ||
		k.quotes != "" && (strings.ContainsAny(k.pairs, k.quotes) || strings.ContainsAny(k.key, k.quotes)):
		return nil, sdk.SettingError{Setting: "quotes", Message: `want ASCII characters that are not \ and are in no ` +
			"separator"}
	}
	if k.types, err = k.compileTypes(nil); err != nil {
		return nil, err
	}
	return func(_ context.Context, v any, m *memory) (any, error) {
		text, err := textOf(v)
		if err != nil {
			return nil, err
		}
		return k.parse(text, m)
	}, nil
}

func (k *kv) parse(text string, m *memory) (any, error) {
	made := map[string]any{}
	for rest := k.skip(text); rest != ""; rest = k.skip(rest) {
		var p pair
		var err error
		if p, rest, err = k.pair(rest); err == nil {
			if err = m.take(memberBytes + len(k.Prefix)); err == nil {
				err = k.addPair(made, p)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return made, nil
}

// pair is a key and its value. A bare key has none.
type pair struct {
	key, value string
	bare       bool
}

// skip returns text without the blanks and separators of pairs at its beginning.
func (k *kv) skip(text string) string {
	for {
		text = trimLeft(text)
		rest, ok := strings.CutPrefix(text, k.pairs)
		if !ok {
			return text
		}
		text = rest
	}
}

// pair returns the first pair of text, and the rest behind it.
func (k *kv) pair(text string) (p pair, rest string, err error) {
	separated := false
	if text != "" && strings.IndexByte(k.quotes, text[0]) >= 0 {
		if p.key, rest, err = unquote(text); err != nil {
			return p, "", err
		}
		if rest, separated = strings.CutPrefix(rest, k.key); !separated {
			rest, separated = strings.CutPrefix(k.trim(rest), k.key)
		}
		if !separated && !k.ends(rest) {
			return p, "", fmt.Errorf("a text follows the quotes of key %s", texttype.Quoted(p.key))
		}
	} else {
		end := k.end(text)
		if i := strings.Index(text[:end], k.key); i >= 0 {
			p.key, rest, separated = trimRight(text[:i]), text[i+len(k.key):], true
		} else {
			p.key, rest = trimRight(text[:end]), text[end:]
		}
	}
	switch {
	case p.key == "":
		return p, "", fmt.Errorf("there is no key in front of %s", texttype.Quoted(text))
	case !separated:
		p.bare = true
		return p, rest, nil
	}
	rest = k.trim(rest)
	if rest != "" && strings.IndexByte(k.quotes, rest[0]) >= 0 {
		if p.value, rest, err = unquote(rest); err == nil {
			if rest = k.trim(rest); !k.ends(rest) {
				err = errors.New("a text follows its quotes")
			}
		}
		if err != nil {
			return p, "", fmt.Errorf("%s: %w", texttype.Quoted(p.key), err)
		}
		return p, rest, nil
	}
	end := k.end(rest)
	p.value = trimRight(rest[:end])
	return p, rest[end:], nil
}

// trim removes blanks that do not separate pairs.
func (k *kv) trim(text string) string {
	for text != "" && isBlank(text[0]) && !k.ends(text) {
		text = text[1:]
	}
	return text
}

// ends reports whether a pair ends in front of text.
func (k *kv) ends(text string) bool {
	return text == "" || strings.HasPrefix(text, k.pairs) || k.blanks && isBlank(text[0])
}

// end returns where the pair at the beginning of text ends, if it has no quotes.
func (k *kv) end(text string) int {
	if k.blanks {
		for i := range len(text) {
			if isBlank(text[i]) {
				return i
			}
		}
		return len(text)
	}
	if i := strings.Index(text, k.pairs); i >= 0 {
		return i
	}
	return len(text)
}

// isBlank reports whether c is among the blanks. The functions below are those of package strings for blanks, which
// make a set of the characters for each call.
func isBlank(c byte) bool { return c == ' ' || c >= '\t' && c <= '\n' || c == '\r' }

func trimLeft(text string) string {
	for text != "" && isBlank(text[0]) {
		text = text[1:]
	}
	return text
}

func trimRight(text string) string {
	for text != "" && isBlank(text[len(text)-1]) {
		text = text[:len(text)-1]
	}
	return text
}

func (k *kv) addPair(made map[string]any, p pair) (err error) {
	var v any
	switch {
	case !p.bare:
		if v, err = k.types.Reader(p.key).Value(p.key, p.value); err != nil {
			return err
		}
	case k.Bare == "drop":
		return nil
	case k.Bare == "refuse":
		return fmt.Errorf("%s is no key with a value", texttype.Quoted(p.key))
	case k.Bare == "true":
		v = true
	}
	return add(made, k.Prefix+p.key, v, k.Duplicates)
}

// unquote returns the text between quotes at the beginning of text, and the rest behind them.
func unquote(text string) (value, rest string, err error) {
	quote := text[0]
	end := 1
	for end < len(text) && text[end] != quote && text[end] != '\\' {
		end++
	}
	if end < len(text) && text[end] == quote {
		return text[1:end], text[end+1:], nil
	}
	made := []byte(text[1:end])
	for i := end; i < len(text); {
		switch c := text[i]; {
		case c == quote:
			return string(made), text[i+1:], nil
		case c == '\\' && i+1 < len(text):
			var n int
			made, n = unescape(made, text[i:])
			i += n
		default:
			made = append(made, c)
			i++
		}
	}
	return "", "", errors.New("the closing quote is missing")
}

// unescape appends the character for the escape sequence at the beginning of text, and returns the length of the
// sequence. An unknown sequence is appended unchanged.
func unescape(dst []byte, text string) ([]byte, int) {
	const escapes, meanings = "nrtbf", "\n\r\t\b\f"
	switch c := text[1]; {
	case strings.IndexByte(escapes, c) >= 0:
		return append(dst, meanings[strings.IndexByte(escapes, c)]), 2
	case c == 'u':
		if r, ok := hexadecimal(text); ok {
			if low, ok := hexadecimal(text[6:]); ok && utf16.IsSurrogate(r) {
				if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
					return utf8.AppendRune(dst, pair), 12
				}
			}
			return utf8.AppendRune(dst, r), 6
		}
	case c < utf8.RuneSelf && !(c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'):
		return append(dst, c), 2
	}
	return append(dst, '\\'), 1
}

// hexadecimal returns the character of \u and four digits.
func hexadecimal(text string) (rune, bool) {
	if len(text) < 6 || text[:2] != `\u` {
		return 0, false
	}
	n, err := strconv.ParseUint(text[2:6], 16, 16)
	return rune(n), err == nil
}
