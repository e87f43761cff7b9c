package record

import (
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strings"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// plain marks the bytes that need no escape inside a JSON string. HTML characters need one, so that the text can be
// embedded in a page.
var plain = func() (t [utf8.RuneSelf]bool) {
	for c := byte(' '); c < utf8.RuneSelf; c++ {
		t[c] = !strings.ContainsRune(`"\<>&`, rune(c))
	}
	return t
}()

// plainPrefix returns the number of leading bytes of s, in words of eight, that need no escape. The last word of s
// overlaps the one before.
func plainPrefix(s string) int {
	if len(s) < 8 {
		return 0
	}
	i := 0
	for ; i+8 <= len(s); i += 8 {
		if !isPlain(word(s[i : i+8])) {
			return i
		}
	}
	if isPlain(word(s[len(s)-8:])) {
		return len(s)
	}
	return i
}

// word returns the first eight bytes of s.
func word(s string) uint64 {
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// isPlain reports whether none of the eight bytes of x needs an escape.
func isPlain(x uint64) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	control := (x - ' '*ones) &^ x
	angle := (x | 2*ones) ^ '>'*ones // 0 for < and >
	quote := (x | 4*ones) ^ '&'*ones // 0 for " and &
	slash := x ^ '\\'*ones
	zero := (angle-ones)&^angle | (quote-ones)&^quote | (slash-ones)&^slash
	return (x|control|zero)&highs == 0
}

// AppendJSONText appends a text as AppendValue does: as a JSON string, in base64 if it is not UTF-8.
func AppendJSONText(dst []byte, s string) []byte {
	start := len(dst)
	dst, valid := appendQuoted(dst, s)
	if !valid {
		return appendBase64(dst[:start], []byte(s))
	}
	return dst
}

// appendString appends a field name or a metadata value in quotes. A byte that is not UTF-8 becomes \x and two digits.
func appendString(dst []byte, s string) []byte {
	dst, _ = appendQuoted(dst, s)
	return dst
}

// appendQuoted appends s in quotes, and reports whether it is UTF-8.
func appendQuoted(dst []byte, s string) (_ []byte, valid bool) {
	dst = append(dst, '"')
	start := 0
	valid = true
	for i := plainPrefix(s); i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if !plain[c] {
				dst = append(dst, s[start:i]...)
				dst = appendEscape(dst, c)
				start = i + 1
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			dst = append(dst, s[start:i]...)
			dst = append(dst, '\\', '\\', 'x', hexDigits[c>>4], hexDigits[c&0xf])
			start = i + size
			valid = false
		} else if r == '\u2028' || r == '\u2029' { // line terminators in JavaScript
			dst = append(dst, s[start:i]...)
			dst = append(dst, `\u202`...)
			dst = append(dst, hexDigits[r&0xf])
			start = i + size
		}
		i += size
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"'), valid
}

// ValidName returns s with bytes that are not UTF-8 written as \x and two hexadecimal digits. Field names, and metadata
// keys and values, have this form in JSON.
func ValidName(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var dst []byte
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			dst = append(dst, '\\', 'x', hexDigits[s[i]>>4], hexDigits[s[i]&0xf])
		} else {
			dst = append(dst, s[i:i+size]...)
		}
		i += size
	}
	return string(dst)
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
}

// base64Pairs maps twelve bits to two base64 digits, with the first digit in the lower byte.
var base64Pairs = func() (t [1 << 12]uint16) {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	for i := range t {
		t[i] = uint16(digits[i>>6]) | uint16(digits[i&0x3f])<<8
	}
	return t
}()

// appendBase64 appends b in quotes, or null if b is nil. It encodes six bytes at a time with a table of digit pairs, in
// less than half the time of package base64.
func appendBase64(dst, b []byte) []byte {
	if b == nil {
		return append(dst, "null"...)
	}
	dst = append(slices.Grow(dst, base64.StdEncoding.EncodedLen(len(b))+2), '"')
	to := dst[len(dst) : len(dst)+len(b)/6*8]
	for len(b) >= 8 {
		x := binary.BigEndian.Uint64(b)
		binary.LittleEndian.PutUint64(to, uint64(base64Pairs[x>>52])|uint64(base64Pairs[x>>40&0xfff])<<16|
			uint64(base64Pairs[x>>28&0xfff])<<32|uint64(base64Pairs[x>>16&0xfff])<<48)
		b, to = b[6:], to[8:]
		dst = dst[:len(dst)+8]
	}
	return append(base64.StdEncoding.AppendEncode(dst, b), '"')
}
