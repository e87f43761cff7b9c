package sqlsink

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/plugins/record"
)

// object returns the object in data, or nil for no data. Numbers and nested values in raw data keep their original
// text: they stay exact, and decoding them costs nothing.
func object(data record.Data) (map[string]any, error) {
	if m, ok := data.Structured(); ok {
		return m, nil
	}
	raw, ok := data.Raw()
	if !ok || len(raw) == 0 {
		return nil, nil
	}
	s := scanner{b: string(raw)} // names and values are substrings
	if m, ok := s.object(); ok {
		return m, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw)) // handles every form, and reports errors
	decoder.UseNumber()
	var m map[string]any
	err := decoder.Decode(&m)
	if wrong := new(json.UnmarshalTypeError); errors.As(err, &wrong) {
		return nil, fmt.Errorf("it is text with a JSON %s", wrong.Value)
	}
	if err != nil {
		return nil, fmt.Errorf("it is text that is not JSON (%w)", err)
	}
	return m, nil
}

// keyObject returns the object in a key. It returns nil for a raw key that is not an object, such as a line number,
// because such a key names no columns.
func keyObject(data record.Data) map[string]any {
	if raw, ok := data.Raw(); ok && !bytes.HasPrefix(bytes.TrimLeft(raw, " \t\r\n"), []byte{'{'}) {
		return nil
	}
	m, err := object(data)
	if err != nil {
		return nil
	}
	return m
}

// scanner reads a JSON object in its usual forms. encoding/json reads all other forms.
type scanner struct {
	b  string
	at int
}

func (s *scanner) space() byte {
	for s.at < len(s.b) {
		switch c := s.b[s.at]; c {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return c
		}
	}
	return 0
}

func (s *scanner) take(c byte) bool {
	if s.space() != c {
		return false
	}
	s.at++
	return true
}

func (s *scanner) object() (map[string]any, bool) {
	if !s.take('{') {
		return nil, false
	}
	m := make(map[string]any, 8)
	if s.take('}') {
		return m, s.space() == 0 && s.at == len(s.b)
	}
	for {
		key, ok := s.text()
		if !ok || !s.take(':') {
			return nil, false
		}
		v, ok := s.value()
		if !ok {
			return nil, false
		}
		m[key] = v
		switch s.space() {
		case ',':
			s.at++
		case '}':
			s.at++
			return m, s.space() == 0 && s.at == len(s.b)
		default:
			return nil, false
		}
	}
}

// text reads a string without escapes and control characters.
func (s *scanner) text() (string, bool) {
	if !s.take('"') {
		return "", false
	}
	ascii := true
	for i := s.at; i < len(s.b); i++ {
		switch c := s.b[i]; {
		case c == '"':
			t := s.b[s.at:i]
			s.at = i + 1
			return t, ascii || utf8.ValidString(t)
		case c == '\\', c < ' ':
			return "", false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return "", false
}

func (s *scanner) value() (any, bool) {
	switch c := s.space(); {
	case c == '"':
		return s.text()
	case c == '-', c >= '0' && c <= '9':
		return s.number()
	case c == 't':
		return true, s.word("true")
	case c == 'f':
		return false, s.word("false")
	case c == 'n':
		return nil, s.word("null")
	}
	return nil, false
}

func (s *scanner) word(w string) bool {
	if !strings.HasPrefix(s.b[s.at:], w) {
		return false
	}
	s.at += len(w)
	return true
}

// number reads an integer or a decimal fraction without an exponent.
func (s *scanner) number() (any, bool) {
	start := s.at
	if s.b[s.at] == '-' {
		s.at++
	}
	whole := s.digits()
	if whole == 0 || whole > 1 && s.b[s.at-whole] == '0' {
		return nil, false
	}
	if s.at < len(s.b) && s.b[s.at] == '.' {
		s.at++
		if s.digits() == 0 {
			return nil, false
		}
	}
	if s.at < len(s.b) && (s.b[s.at] == 'e' || s.b[s.at] == 'E') {
		return nil, false
	}
	return json.Number(s.b[start:s.at]), true
}

func (s *scanner) digits() int {
	start := s.at
	for s.at < len(s.b) && s.b[s.at] >= '0' && s.b[s.at] <= '9' {
		s.at++
	}
	return s.at - start
}
