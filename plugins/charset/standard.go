package charset

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
)

// Encoding is an encoding of the Encoding Standard (encoding.spec.whatwg.org), which defines how programs of the web
// read text: latin1 and ascii are windows-1252, for example. UTF-8, UTF-16 and the single-byte encodings are supported.
type Encoding struct {
	name  string
	unit  func([]byte) uint16 // for UTF-16
	table *charmap.Charmap    // for single-byte encodings
}

// Name returns the name of the encoding in the standard.
func (e *Encoding) Name() string { return e.name }

// labels are the labels that differ from the name of their encoding, by that name.
var labels = map[string]string{
	"utf-8":    "unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf8 x-unicode20utf8",
	"utf-16le": "csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16",
	"utf-16be": "unicodefffe",
	"windows-1252": "ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1 iso88591 " +
		"iso_8859-1 iso_8859-1:1987 l1 latin1 us-ascii x-cp1252",
	"windows-1254": "cp1254 iso-8859-9 iso8859-9 iso_8859-9 l5 latin5 x-cp1254",
	"windows-874":  "iso-8859-11 iso8859-11 tis-620",
	"iso-8859-2":   "iso8859-2 iso_8859-2 l2 latin2",
	"iso-8859-5":   "cyrillic iso8859-5 iso_8859-5",
	"iso-8859-7":   "greek iso8859-7 iso_8859-7",
	"iso-8859-15":  "iso8859-15 iso_8859-15 l9",
	"windows-1250": "cp1250 x-cp1250",
	"windows-1251": "cp1251 x-cp1251",
	"windows-1253": "cp1253 x-cp1253",
	"windows-1255": "cp1255 x-cp1255",
	"windows-1256": "cp1256 x-cp1256",
	"windows-1257": "cp1257 x-cp1257",
	"windows-1258": "cp1258 x-cp1258",
	"macintosh":    "mac x-mac-roman",
	"ibm866":       "866 cp866 csibm866",
	"koi8-r":       "koi koi8 koi8_r cskoi8r",
	"koi8-u":       "koi8-ru",
}

// singleByte are the single-byte encodings of the standard.
var singleByte = []string{"ibm866", "iso-8859-2", "iso-8859-3",
	"iso-8859-4", "iso-8859-5", "iso-8859-6", "iso-8859-7", "iso-8859-8",
	"iso-8859-10", "iso-8859-13", "iso-8859-14", "iso-8859-15",
	"iso-8859-16", "koi8-r", "koi8-u", "macintosh", "windows-874",
	"windows-1250", "windows-1251", "windows-1252", "windows-1253",
	"windows-1254", "windows-1255", "windows-1256", "windows-1257",
	"windows-1258"}

// Standard returns the encoding with this label, or nil if it is unknown.
func Standard(label string) *Encoding {
	name := strings.ToLower(strings.Trim(label, "\t\n\f\r "))
	for canonical, others := range labels {
		for other := range strings.SplitSeq(others, " ") {
			if other == name {
				name = canonical
			}
		}
	}
	switch name {
	case "utf-8":
		return &Encoding{name: name}
	case "utf-16le":
		return &Encoding{name: name, unit: littleUnit}
	case "utf-16be":
		return &Encoding{name: name, unit: bigUnit}
	}
	for _, known := range singleByte {
		if known == name {
			return &Encoding{name: name, table: tables()[plain(name)]}
		}
	}
	return nil
}

// Mark returns the byte order mark of text in the encoding, or "" if it has none.
func (e *Encoding) Mark() string {
	switch e.name {
	case "utf-8":
		return "\xef\xbb\xbf"
	case "utf-16le":
		return "\xff\xfe"
	case "utf-16be":
		return "\xfe\xff"
	}
	return ""
}

// Decode returns text as UTF-8. As in the standard, U+FFFD replaces bytes that cannot be decoded; err describes the
// first one. If more is true, rest holds the bytes of an incomplete character at the end.
func (e *Encoding) Decode(text []byte, more bool) (out, rest []byte, err error) {
	switch {
	case e.table != nil:
		return e.decodeTable(text)
	case e.unit != nil:
		return e.decodeUnits(text, more)
	}
	if utf8.Valid(text) {
		return text, nil, nil
	}
	out = make([]byte, 0, len(text)+len(text)/8)
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 {
			var begun bool
			if size, begun = truncated(text[i:]); begun && more {
				return out, text[i:], err
			}
			err = e.note(err, text, i)
		}
		out = utf8.AppendRune(out, r)
		i += size
	}
	return out, nil, err
}

// note returns err if it is not nil, and otherwise an error for the byte at i.
func (e *Encoding) note(err error, text []byte, i int) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("it is not %s: byte %d is %#02x", e.name, i+1, text[i])
}

// truncated returns how many bytes at the beginning of text could begin a UTF-8 character, at least 1, and whether
// these are all bytes of text. text must not begin with a valid character.
func truncated(text []byte) (n int, all bool) {
	for n = 1; n < len(text) && !utf8.FullRune(text[:n]); n++ { // FullRune is true once no byte can complete it
	}
	if utf8.FullRune(text[:n]) {
		return max(1, n-1), false
	}
	return n, true
}

func littleUnit(b []byte) uint16 { return uint16(b[1])<<8 | uint16(b[0]) }
func bigUnit(b []byte) uint16    { return uint16(b[0])<<8 | uint16(b[1]) }

func (e *Encoding) decodeUnits(text []byte, more bool) (out, rest []byte, err error) {
	out = make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		if len(text)-i == 1 {
			if more {
				return out, text[i:], err
			}
			return utf8.AppendRune(out, utf8.RuneError), nil, e.note(err, text, i)
		}
		r, size := rune(e.unit(text[i:])), 2
		if utf16.IsSurrogate(r) {
			pair := rune(utf8.RuneError)
			if i+4 <= len(text) {
				pair = utf16.DecodeRune(r, rune(e.unit(text[i+2:])))
			} else if more && r < 0xdc00 {
				return out, text[i:], err
			}
			if r = pair; pair == utf8.RuneError {
				err = e.note(err, text, i)
			} else {
				size = 4
			}
		}
		out = utf8.AppendRune(out, r)
		i += size
	}
	return out, nil, err
}

func (e *Encoding) decodeTable(text []byte) (out, rest []byte, err error) {
	if bytes.IndexFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }) < 0 {
		return text, nil, nil
	}
	out = make([]byte, 0, len(text)+len(text)/8)
	for i, c := range text {
		r := e.table.DecodeByte(c)
		if r == utf8.RuneError {
			if c < 0xa0 { // a control character
				r = rune(c)
			} else {
				err = e.note(err, text, i)
			}
		}
		out = utf8.AppendRune(out, r)
	}
	return out, nil, err
}
