package record

import (
	"encoding/base64"
	"encoding/json"
	"math/bits"
	"time"
	"unicode/utf8"
)

// Content returns the size of the key and of both sides of the payload in bytes, for the metrics: raw data unchanged,
// structured data in the encoding in which it leaves the agent. The encoding is Avro if the metadata name a schema,
// otherwise JSON. The extra byte of nullable fields in Avro does not count. Data that is nested too deeply for both
// does not count either.
func (r *Record) Content() int {
	n, _ := r.contentDepth()
	return n
}

// contentDepth implements Content, and reports whether a part of r is nested too deeply.
func (r *Record) contentDepth() (n int, deep bool) {
	key := r.Key.content(&r.Metadata, KeyKeySchemaSubject)
	before, after := r.Before.content(&r.Metadata, KeyPayloadSchemaSubject),
		r.After.content(&r.Metadata, KeyPayloadSchemaSubject)
	return max(0, key) + max(0, before) + max(0, after), min(key, before, after) == tooDeep
}

func (d *Data) content(m *Metadata, schema string) int {
	if d.kind != structured {
		return len(d.raw)
	}
	if b, ok := d.encoded.wire(); ok {
		return wireObjectLength(b, &fields{hi: len(b)}, 0)
	}
	return objectLength(d.object(), m.Get(schema) != "")
}

func objectLength(m map[string]any, avro bool) int {
	if avro {
		return avroLength(m, 0)
	}
	return jsonLength(m, 0)
}

// avroLength returns the length of a value in Avro, with objects as records, or tooDeep.
func avroLength(v any, depth int) (n int) {
	switch v := v.(type) {
	case string:
		return avroTextLength(len(v))
	case []byte:
		return avroTextLength(len(v))
	case json.Number:
		return avroTextLength(len(v))
	case nil, bool:
		return 1
	case float64, float32:
		return 8
	case time.Time:
		return varintLength(v.UnixMicro())
	case time.Duration:
		return varintLength(v.Microseconds())
	case map[string]any:
		if depth > maxJSONDepth {
			return tooDeep
		}
		for _, field := range v {
			k := avroLength(field, depth+1)
			if k == tooDeep {
				return tooDeep
			}
			n += k
		}
		return n
	case []any: // one block, and an empty one at the end
		if depth > maxJSONDepth {
			return tooDeep
		}
		if len(v) > 0 {
			n = varintLength(int64(len(v)))
		}
		for _, item := range v {
			k := avroLength(item, depth+1)
			if k == tooDeep {
				return tooDeep
			}
			n += k
		}
		return n + 1
	}
	i, ok := asInt(v)
	if !ok {
		u, _ := asUint(v)
		i = int64(u)
	}
	return varintLength(i)
}

func avroTextLength(n int) int { return varintLength(int64(n)) + n }

// varintLength returns the length of n as a zigzag varint.
func varintLength(n int64) int {
	zigzag := uint64(n)<<1 ^ uint64(n>>63)
	return (bits.Len64(zigzag|1) + 6) / 7
}

// jsonLength returns the length of the output of AppendValue, or tooDeep.
func jsonLength(v any, depth int) (n int) {
	switch v := v.(type) {
	case string:
		return textLength(v)
	case map[string]any:
		if v == nil {
			return len("null")
		}
		if depth > maxJSONDepth {
			return tooDeep
		}
		for key, field := range v {
			k := jsonLength(field, depth+1)
			if k == tooDeep {
				return tooDeep
			}
			n += nameLength(key) + len(":") + k
		}
		return n + bracketsLength(len(v))
	case []any:
		if v == nil {
			return len("null")
		}
		if depth > maxJSONDepth {
			return tooDeep
		}
		for _, item := range v {
			k := jsonLength(item, depth+1)
			if k == tooDeep {
				return tooDeep
			}
			n += k
		}
		return n + bracketsLength(len(v))
	case nil:
		return len("null")
	case bool:
		if v {
			return len("true")
		}
		return len("false")
	case []byte:
		return len(`""`) + base64.StdEncoding.EncodedLen(len(v))
	case time.Time:
		return timeLength(v)
	}
	if n, ok := asInt(v); ok {
		return intLength(n)
	}
	var scratch [64]byte
	text, _ := AppendValue(scratch[:0], v)
	return len(text)
}

func intLength(n int64) int {
	sign, magnitude := 0, uint64(n)
	if n < 0 {
		sign, magnitude = 1, -magnitude
	}
	// The number of binary digits times log10(2), about 1233/4096, is the number of decimal digits or one less.
	digits := bits.Len64(magnitude|1) * 1233 >> 12
	if magnitude|1 >= powers[digits] {
		digits++
	}
	return sign + digits
}

// powers are the powers of ten.
var powers = func() (p [20]uint64) {
	p[0] = 1
	for i := 1; i < len(p); i++ {
		p[i] = 10 * p[i-1]
	}
	return p
}()

// timeLength returns the length of the output of appendTime.
func timeLength(t time.Time) int {
	if y := t.UTC().Year(); y < 0 || y > 9999 {
		return len(appendTime(nil, t))
	}
	n := len(`"2006-01-02T15:04:05Z"`)
	nanos := t.Nanosecond()
	if nanos == 0 {
		return n
	}
	for n += len(".000000000"); nanos%10 == 0; nanos /= 10 {
		n--
	}
	return n
}

// bracketsLength returns the length of the brackets around n items and the commas between them.
func bracketsLength(n int) int { return 2 + max(0, n-1) }

// textLength returns the length of the output of appendText.
func textLength(s string) int {
	n, valid := quotedLength(s)
	if !valid {
		return len(`""`) + base64.StdEncoding.EncodedLen(len(s))
	}
	return n
}

// nameLength returns the length of the output of appendString.
func nameLength[T string | []byte](s T) int {
	n, _ := quotedLength(s)
	return n
}

// quotedLength returns the length of the output of appendQuoted, and whether s is UTF-8.
func quotedLength[T string | []byte](s T) (n int, valid bool) {
	n, valid = len(`""`), true
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			n += plainLength(c)
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
		switch {
		case r == utf8.RuneError && size == 1:
			n += len(`\\xff`)
			valid = false
		case r == '\u2028' || r == '\u2029':
			n += len(`\u2028`)
		default:
			n += size
		}
		i += size
	}
	return n, valid
}

func plainLength(c byte) int {
	if plain[c] {
		return 1
	}
	var scratch [8]byte
	return len(appendEscape(scratch[:0], c))
}
