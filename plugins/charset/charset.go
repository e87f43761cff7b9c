// Package charset converts text in other encodings to UTF-8. Characters are never replaced: undecodable bytes are an
// error.
package charset

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
)

// ErrUnknown is wrapped by the error for text in an unknown encoding.
var ErrUnknown = errors.New("the encoding is not known: send UTF-8")

var byteOrderMarks = []struct{ mark, name string }{
	{"\xef\xbb\xbf", "utf-8"},
	{"\xff\xfe\x00\x00", "utf-32"},
	{"\x00\x00\xfe\xff", "utf-32"},
	{"\xff\xfe", "utf-16le"},
	{"\xfe\xff", "utf-16be"},
}

// Of returns the encoding that a content type names, or "" if it names none.
func Of(contentType string) string {
	_, parameters, err := mime.ParseMediaType(contentType)
	if err != nil {
		return ""
	}
	return parameters["charset"]
}

// UTF8 returns text as UTF-8 without a byte order mark. A byte order mark takes precedence over name, the name of the
// encoding; "" stands for UTF-8. The result may share memory with text. It takes up to three times as many bytes.
func UTF8(text []byte, name string) ([]byte, error) {
	for _, b := range byteOrderMarks {
		if rest, ok := bytes.CutPrefix(text, []byte(b.mark)); ok {
			text, name = rest, b.name
			break
		}
	}
	switch plain(name) {
	case "", "utf8":
		if i := invalid(text); i >= 0 {
			return nil, fmt.Errorf("it is not UTF-8: byte %d is %#02x", i+1, text[i])
		}
		return text, nil
	case "usascii", "ascii":
		if i := bytes.IndexFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }); i >= 0 {
			return nil, fmt.Errorf("it is not ASCII: byte %d is %#02x", i+1, text[i])
		}
		return text, nil
	case "utf16", "utf16be":
		return fromUTF16(text, func(b []byte) uint16 { return uint16(b[0])<<8 | uint16(b[1]) })
	case "utf16le":
		return fromUTF16(text, func(b []byte) uint16 { return uint16(b[1])<<8 | uint16(b[0]) })
	}
	table := tables()[plain(name)]
	if table == nil {
		return nil, fmt.Errorf("it is text in %q: %w", name, ErrUnknown)
	}
	out := make([]byte, 0, len(text)+len(text)/8)
	for i, c := range text {
		r := table.DecodeByte(c)
		if r == utf8.RuneError {
			return nil, fmt.Errorf("it is not %s: byte %d is %#02x", name, i+1, c)
		}
		out = utf8.AppendRune(out, r)
	}
	return out, nil
}

// invalid returns the index of the first byte that is not UTF-8, or -1 if there is none.
func invalid(text []byte) int {
	if utf8.Valid(text) {
		return -1
	}
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

func fromUTF16(text []byte, unit func([]byte) uint16) ([]byte, error) {
	if len(text)%2 > 0 {
		return nil, fmt.Errorf("it is not UTF-16: it has %d bytes", len(text))
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i += 2 {
		r := rune(unit(text[i:]))
		if utf16.IsSurrogate(r) {
			pair := rune(utf8.RuneError)
			if i+2 < len(text) {
				pair = utf16.DecodeRune(r, rune(unit(text[i+2:])))
			}
			if pair == utf8.RuneError {
				return nil, fmt.Errorf("it is not UTF-16: byte %d begins half of a character", i+1)
			}
			r = pair
			i += 2
		}
		out = utf8.AppendRune(out, r)
	}
	return out, nil
}

// tables are the single-byte encodings, by their names without punctuation.
var tables = sync.OnceValue(func() map[string]*charmap.Charmap {
	all := map[string]*charmap.Charmap{}
	for _, e := range charmap.All {
		if table, ok := e.(*charmap.Charmap); ok {
			all[plain(table.String())] = table
		}
	}
	for alias, name := range map[string]string{
		"latin1": "iso88591", "l1": "iso88591", "iso8859": "iso88591", "latin2": "iso88592", "latin9": "iso885915",
		"ibm437": "ibmcodepage437", "ibm850": "ibmcodepage850", "ibm852": "ibmcodepage852", "ibm866": "ibmcodepage866",
		"cp437": "ibmcodepage437", "cp850": "ibmcodepage850", "cp852": "ibmcodepage852", "cp866": "ibmcodepage866",
		"cp1250": "windows1250", "cp1251": "windows1251", "cp1252": "windows1252",
		"cp1253": "windows1253", "cp1254": "windows1254",
		"cp1255": "windows1255", "cp1256": "windows1256", "cp1257": "windows1257", "cp1258": "windows1258",
	} {
		if all[name] != nil {
			all[alias] = all[name]
		}
	}
	return all
})

// plain returns the name of an encoding in lower case and without punctuation, because both vary.
func plain(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(name))
}
