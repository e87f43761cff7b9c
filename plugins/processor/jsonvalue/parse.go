// Package jsonvalue parses JSON to values of structured data.
package jsonvalue

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/plugins/charset"
	"github.com/conduit-agent/conduit/plugins/record"
)

// maxDepth bounds the nesting of arrays and objects.
const maxDepth = 1000

// Parse returns the value of the JSON text b: nil, bool, string, []any or map[string]any of these, or a number. A
// number is a float64 if that does not change it, otherwise an int64 if it is an integer, otherwise a json.Number as in
// record.Number. Invalid UTF-8 is an error.
func Parse(b []byte) (any, error) { return ParseWithin(b, maxMemory) }

// maxMemory bounds the memory of the values that Parse returns, in bytes.
const maxMemory = 256 << 20

// ParseWithin is Parse with a memory limit for the value in bytes: an empty object takes many times its text size.
func ParseWithin(b []byte, limit int) (any, error) {
	b, err := charset.UTF8(b, "")
	if err != nil {
		return nil, err
	}
	p := parser{text: string(b), left: limit, limit: limit} // one copy, shared by keys and texts
	p.space()
	v, err := p.value(0)
	if p.space(); err == nil && p.at < len(p.text) {
		err = errSyntax
	}
	if errors.Is(err, errSyntax) {
		return nil, explain(b)
	}
	return v, err
}

var errSyntax = errors.New("syntax error")

// explain returns the error of encoding/json for text that is not JSON.
func explain(b []byte) error {
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	return errSyntax
}

type parser struct {
	text  string
	at    int
	left  int  // remaining bytes of memory for values
	limit int  // initial value of left, for errors
	skip  bool // check values without allocating them
}

// Memory in bytes: of a list, an element of a list, an object, its first members, each further member, and of a text or
// number in addition to its place.
const (
	listBytes    = 24
	elementBytes = 32
	objectBytes  = 48
	membersBytes = 272
	firstMembers = 8
	memberBytes  = 80
	valueBytes   = 16
)

// ErrMemory is returned for values that exceed the memory limit.
var ErrMemory = errors.New("it takes too much memory")

func (p *parser) take(n int) error {
	if p.left -= n; p.left < 0 {
		return fmt.Errorf("%w: more than %d MiB, once it is decoded", ErrMemory, p.limit>>20)
	}
	return nil
}

// takeMember counts the memory of member number n of an object.
func (p *parser) takeMember(n int) error {
	switch {
	case n == 0:
		return p.take(membersBytes)
	case n >= firstMembers:
		return p.take(memberBytes)
	}
	return nil
}

func (p *parser) space() {
	for p.at < len(p.text) {
		switch p.text[p.at] {
		case ' ', '\t', '\n', '\r':
			p.at++
		default:
			return
		}
	}
}

// peek returns the next byte, or 0 at the end.
func (p *parser) peek() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

func (p *parser) value(depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested more than %d deep", maxDepth)
	}
	switch c := p.peek(); {
	case c == '{':
		return p.object(depth)
	case c == '[':
		return p.array(depth)
	case c == '"':
		return p.str()
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	case strings.HasPrefix(p.text[p.at:], "true"):
		p.at += 4
		return true, nil
	case strings.HasPrefix(p.text[p.at:], "false"):
		p.at += 5
		return false, nil
	case strings.HasPrefix(p.text[p.at:], "null"):
		p.at += 4
		return nil, nil
	}
	return nil, errSyntax
}

func (p *parser) object(depth int) (any, error) {
	p.at++
	var m map[string]any
	if !p.skip {
		m = map[string]any{}
	}
	if err := p.take(objectBytes); err != nil {
		return nil, err
	}
	for n := 0; ; n++ {
		p.space()
		if n == 0 && p.peek() == '}' {
			p.at++
			return m, nil
		}
		if p.peek() != '"' {
			return nil, errSyntax
		}
		k, err := p.str()
		if err == nil {
			err = p.takeMember(n)
		}
		if err != nil {
			return nil, err
		}
		p.space()
		if p.peek() != ':' {
			return nil, errSyntax
		}
		p.at++
		p.space()
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		if !p.skip {
			m[k] = v
		}
		if more, err := p.more('}'); !more {
			return m, err
		}
	}
}

func (p *parser) array(depth int) (any, error) {
	p.at++
	a := []any{}
	if err := p.take(listBytes); err != nil {
		return nil, err
	}
	for first := true; ; first = false {
		p.space()
		if first && p.peek() == ']' {
			p.at++
			return a, nil
		}
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		if err := p.take(elementBytes); err != nil {
			return nil, err
		}
		if !p.skip {
			a = append(a, v)
		}
		if more, err := p.more(']'); !more {
			return a, err
		}
	}
}

// more reads a comma, or the end of an array or object.
func (p *parser) more(end byte) (bool, error) {
	p.space()
	c := p.peek()
	p.at++
	switch c {
	case ',':
		return true, nil
	case end:
		return false, nil
	}
	return false, errSyntax
}

// number reads a number according to the JSON grammar.
func (p *parser) number() (any, error) {
	if err := p.take(valueBytes); err != nil {
		return nil, err
	}
	start, integer := p.at, true
	if p.peek() == '-' {
		p.at++
	}
	if p.peek() == '0' {
		p.at++
	} else if !p.digits() {
		return nil, errSyntax
	}
	if p.peek() == '.' {
		integer = false
		if p.at++; !p.digits() {
			return nil, errSyntax
		}
	}
	if c := p.peek(); c == 'e' || c == 'E' {
		integer = false
		if p.at++; p.peek() == '+' || p.peek() == '-' {
			p.at++
		}
		if !p.digits() {
			return nil, errSyntax
		}
	}
	return parseNumber(p.text[start:p.at], integer), nil
}

func (p *parser) digits() bool {
	start := p.at
	for c := p.peek(); c >= '0' && c <= '9'; c = p.peek() {
		p.at++
	}
	return p.at > start
}

// maxFloatInteger is the largest integer up to which float64 represents all integers exactly.
const maxFloatInteger = 1 << 53

func parseNumber(s string, integer bool) any {
	if integer && len(s) <= len("9007199254740992") { // the most common case
		if n, err := strconv.ParseInt(s, 10, 64); err == nil && n != 0 && n >= -maxFloatInteger &&
			n <= maxFloatInteger {
			return float64(n)
		}
	}
	if !integer {
		if f, exact := record.ExactFloat(s); exact {
			return f
		}
		return json.Number(s)
	}
	v := record.Number(s)
	if n, ok := v.(int64); ok && n >= -maxFloatInteger && n <= maxFloatInteger {
		return float64(n)
	}
	return v
}

// str reads a string. A string without escapes shares the text.
func (p *parser) str() (string, error) {
	if err := p.take(valueBytes); err != nil {
		return "", err
	}
	p.at++
	start := p.at
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case c == '"':
			s := p.text[start:p.at]
			p.at++
			if p.skip {
				return "", nil
			}
			return s, nil
		case c == '\\':
			return p.escaped(start)
		case c < ' ':
			return "", errSyntax
		}
		p.at++
	}
	return "", errSyntax
}

func (p *parser) escaped(start int) (string, error) {
	if p.skip {
		return "", p.skipEscaped()
	}
	b := append(make([]byte, 0, p.at-start+16), p.text[start:p.at]...)
	for p.at < len(p.text) {
		c := p.text[p.at]
		p.at++
		switch {
		case c == '"':
			return string(b), nil
		case c < ' ':
			return "", errSyntax
		case c != '\\':
			b = append(b, c)
			continue
		}
		if p.peek() == 'u' {
			r, err := p.unicode()
			if err != nil {
				return "", err
			}
			b = utf8.AppendRune(b, r)
			continue
		}
		i := strings.IndexByte(`"\/bfnrt`, p.peek())
		if i < 0 || p.at == len(p.text) {
			return "", errSyntax
		}
		b = append(b, "\"\\/\b\f\n\r\t"[i])
		p.at++
	}
	return "", errSyntax
}

var errHalf = errors.New("a text in it has one half of a pair of surrogates, such as \\ud83d, which is no character")

// unicode reads u and four hexadecimal digits, and the second half of a surrogate pair.
func (p *parser) unicode() (rune, error) {
	r, ok := p.hex(p.at)
	if !ok {
		return 0, errSyntax
	}
	p.at += 5
	if !utf16.IsSurrogate(r) {
		return r, nil
	}
	if p.peek() == '\\' {
		if low, ok := p.hex(p.at + 1); ok {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				p.at += 6
				return pair, nil
			}
		}
	}
	return 0, errHalf
}

func (p *parser) hex(at int) (rune, bool) {
	if at+5 > len(p.text) || p.text[at] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(p.text[at+1:at+5], 16, 32)
	return rune(n), err == nil
}
