package generator

import (
	"strconv"
	"time"
)

// field is one field of a payload.
type field struct {
	name   string
	quoted string // name as JSON
	kind   kind
}

// kind is the type of a field's values.
type kind uint8

const (
	kindInt kind = iota
	kindString
	kindTime
	kindBool
	kindDuration
)

// kinds maps the names of types in settings.
var kinds = map[string]kind{
	"int":      kindInt,
	"string":   kindString,
	"time":     kindTime,
	"bool":     kindBool,
	"duration": kindDuration,
}

// value returns a random value: a non-negative number, a word, the current time, a boolean, or a duration of less than
// 1000 seconds in nanoseconds.
func (b *batch) value(k kind) any {
	switch k {
	case kindString:
		var word [wordBytes]byte
		w := appendWord(word[:0], b.random.Uint64())
		b.bytes += len(w)
		return string(w)
	case kindTime:
		return b.now
	case kindBool:
		return b.random.Uint64()&1 == 0
	case kindDuration:
		return time.Duration(b.random.IntN(1000)) * time.Second
	default:
		return b.random.Int64()
	}
}

// appendJSON appends the JSON text of a random value.
func (b *batch) appendJSON(dst []byte, k kind) []byte {
	switch k {
	case kindString:
		dst = append(dst, '"')
		dst = appendWord(dst, b.random.Uint64())
		return append(dst, '"')
	case kindTime:
		return append(dst, b.nowJSON...)
	case kindBool:
		return strconv.AppendBool(dst, b.random.Uint64()&1 == 0)
	case kindDuration:
		return strconv.AppendInt(dst, int64(b.random.IntN(1000))*int64(time.Second), 10)
	default:
		return strconv.AppendInt(dst, b.random.Int64(), 10)
	}
}

const (
	consonants = "bdfghjklmnprstvz"
	vowels     = "aeio"
	endings    = "lnrs"
	wordBytes  = 9 // length of the longest word
)

// appendWord appends a word of two to four syllables, such as "talen" or "kosiverad". bits selects one of approximately
// 80 million words.
func appendWord(dst []byte, bits uint64) []byte {
	syllables := 2 + bits&1 + bits>>1&1
	end := bits >> 2 & 7
	bits >>= 5
	for range syllables {
		dst = append(dst, consonants[bits&15], vowels[bits>>4&3])
		bits >>= 6
	}
	if end < uint64(len(endings)) {
		dst = append(dst, endings[end])
	}
	return dst
}
