package redact

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/spec"
)

// forms returns the forms of a value in texts: unchanged, quoted by Go, as JSON, with or without escapes of <, > and
// &, in XML, in SQL and libpq pairs, escaped for URLs, in hexadecimal digits, and within base64. Other escapes with
// percent signs and backslashes are decoded in the text; a query then still has + for spaces.
func forms(value string) []string {
	quoted, user := strconv.Quote(value), url.UserPassword("", value).String()
	inJSON, _ := json.Marshal(value) // a string always has a JSON form
	all := []string{value, quoted[1 : len(quoted)-1], string(inJSON[1 : len(inJSON)-1]), url.QueryEscape(value),
		strings.ReplaceAll(value, " ", "+"), url.PathEscape(value), user[1:], spec.URLComponent(value),
		spec.URLPath(value),
		html.EscapeString(value), strings.ReplaceAll(value, "'", "''"), strings.ReplaceAll(value, `"`, `""`)}
	if len(value) < longValue {
		return all
	}
	digits := hex.EncodeToString([]byte(value))
	return append(append(all, digits, strings.ToUpper(digits)), inBase64(value)...)
}

// inBase64 returns the characters shared by all base64 texts in which value begins at the first, second or third byte
// of a group, for example after the user in an Authorization header.
func inBase64(value string) (all []string) {
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			text := encoding.EncodeToString(append(make([]byte, before), value...))
			if before == 0 {
				all = append(all, text) // most often the value is at the end
			}
			from, to := (before*8+5)/6, (before+len(value))*8/6
			if to-from >= longValue {
				all = append(all, text[from:to])
			}
		}
	}
	return all
}

// escape is a syntax for escaped characters.
type escape struct {
	mark  byte                                         // the first byte of an escape
	plain func(escaped string) (decoded string, n int) // decodes the first n bytes; 0: they are not escaped
}

var escapes = []escape{{'%', percent}, {'\\', backslash}}

// decode returns text without escapes. For each byte of the result, and for its end, it also returns the place in the
// original text. at holds the places of text; nil: text is the original.
func (e escape) decode(text string, at []int) (decoded string, places []int) {
	place := func(i int) int {
		if at == nil {
			return i
		}
		return at[i]
	}
	var b strings.Builder
	places = make([]int, 0, len(text)+1)
	for i := 0; i < len(text); {
		one, n := text[i:i+1], 1
		if text[i] == e.mark {
			if plain, m := e.plain(text[i:]); m > 0 {
				one, n = plain, m
			}
		}
		for range len(one) {
			places = append(places, place(i))
		}
		b.WriteString(one)
		i += n
	}
	return b.String(), append(places, place(len(text)))
}

// percent decodes an escape of a URL.
func percent(text string) (string, int) {
	if len(text) < 3 {
		return "", 0
	}
	b, err := hex.DecodeString(text[1:3])
	if err != nil {
		return "", 0
	}
	return string(b), 3
}

// backslash decodes an escape of a string of Go, JSON, SQL or a shell.
func backslash(text string) (string, int) {
	if len(text) < 2 {
		return "", 0
	}
	if digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[text[1]]; digits > 0 && len(text) >= 2+digits {
		if n, err := strconv.ParseUint(text[2:2+digits], 16, 32); err == nil {
			if text[1] == 'x' {
				return string([]byte{byte(n)}), 2 + digits
			}
			return string(rune(n)), 2 + digits
		}
	}
	if plain, ok := map[byte]string{'n': "\n", 't': "\t", 'r': "\r", '0': "\x00"}[text[1]]; ok {
		return plain, 2
	}
	_, n := utf8.DecodeRuneInString(text[1:])
	return text[1 : 1+n], 1 + n
}
