package binlog

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// value takes the value of a column. With skip it does not convert strings and BLOBs.
//
// Integers are int32 or, if the type needs more bits, int64; BIGINT UNSIGNED is uint64; BIT is uint64; DECIMAL, TIME,
// ENUM, SET and JSON are text; DATE, DATETIME and TIMESTAMP are time.Time in UTC, or text for invalid times such as
// 0000-00-00. A member that an ENUM or SET does not have is text with its number. A value that cannot be converted to
// text, such as damaged JSON, stays bytes.
func (c *Column) value(r *reader, skip bool) (any, error) {
	switch c.Type {
	case TypeTiny, TypeShort, TypeInt24, TypeLong, TypeLongLong:
		return c.integer(r), nil
	case TypeFloat:
		return math.Float32frombits(r.uint32()), nil
	case TypeDouble:
		return math.Float64frombits(r.uint64()), nil
	case TypeYear:
		if y := r.uint8(); y != 0 {
			return int32(y) + 1900, nil
		}
		return int32(0), nil
	case TypeBit:
		return r.big(int(c.Meta>>8) + min(int(c.Meta&0xff), 1)), nil
	case TypeNewDecimal:
		return decimal(r, int(c.Meta>>8), int(c.Meta&0xff))
	case TypeEnum, TypeSet:
		return c.member(r)
	case TypeNull:
		return nil, nil
	case TypeVarchar, TypeVarString, TypeString, TypeTinyBlob, TypeMediumBlob, TypeLongBlob, TypeBlob, TypeGeometry,
		TypeVector, TypeJSON, TypeBlobCompressed, TypeVarcharCompressed:
		return c.bytes(r, skip)
	}
	return c.moment(r)
}

// ErrUnconvertible reports that a value has no text form.
var ErrUnconvertible = errors.New("the value cannot be converted to text")

func (c *Column) integer(r *reader) any {
	size := [...]int{TypeTiny: 1, TypeShort: 2, TypeLong: 4, TypeLongLong: 8, TypeInt24: 3}[c.Type]
	v := r.little(size)
	if c.Unsigned {
		switch size {
		case 8:
			return v
		case 4:
			return int64(v)
		}
		return int32(v)
	}
	n := int64(v<<(64-8*size)) >> (64 - 8*size)
	if size == 8 {
		return n
	}
	return int32(n)
}

// member takes a value of an ENUM or SET as text.
func (c *Column) member(r *reader) (any, error) {
	v := r.little(int(c.Meta))
	if c.Type == TypeEnum {
		switch {
		case v == 0: // an invalid member when it was written
			return "", nil
		case v > uint64(len(c.Values)):
			return strconv.FormatUint(v, 10), nil
		}
		return c.Values[v-1], nil
	}
	text := make([]byte, 0, 32)
	for i := 0; v>>i != 0 && i < 64; i++ {
		if v>>i&1 == 0 {
			continue
		}
		if len(text) > 0 {
			text = append(text, ',')
		}
		if i < len(c.Values) {
			text = append(text, c.Values[i]...)
		} else {
			text = strconv.AppendInt(text, int64(i+1), 10)
		}
	}
	return string(text), nil
}

// bytes takes the value of a string, BLOB or JSON.
func (c *Column) bytes(r *reader, skip bool) (any, error) {
	size := int(c.Meta) // size of the length, for BLOB
	switch c.Type {
	case TypeVarchar, TypeVarString, TypeString, TypeVarcharCompressed:
		size = 1
		if c.Meta > 255 {
			size = 2
		}
	}
	b := r.take(int(r.little(size)))
	if skip || r.failed {
		return nil, nil
	}
	if c.Type == TypeBlobCompressed || c.Type == TypeVarcharCompressed {
		expanded, err := expandColumn(b, r.made)
		if errors.As(err, new(*tooLargeError)) {
			return nil, err
		}
		if err != nil {
			return bytes.Clone(b), nil
		}
		b = expanded
	}
	switch {
	case c.Type == TypeJSON:
		text, err := jsonText(b)
		if err != nil {
			return bytes.Clone(b), nil
		}
		return text, nil
	case c.Convert != nil:
		v, err := c.Convert(b)
		if errors.Is(err, ErrUnconvertible) {
			return bytes.Clone(b), nil
		}
		return v, err
	case c.Binary && c.Type == TypeString: // the log omits trailing zeros
		return append(make([]byte, 0, c.Meta), b...)[:max(int(c.Meta), len(b))], nil
	case c.Binary || c.Type == TypeGeometry || c.Type == TypeVector:
		return append([]byte{}, b...), nil
	}
	return string(b), nil
}

// moment takes a date or time.
func (c *Column) moment(r *reader) (any, error) {
	switch c.Type {
	case TypeDate, TypeNewDate:
		v := int(r.little(3))
		return date(v>>9, v>>5&15, v&31), nil
	case TypeDateTime:
		v := r.uint64()
		d, t := int(v/1000000), int(v%1000000)
		return dateTime(d/10000, d/100%100, d%100, t/10000, t/100%100, t%100, 0, 0), nil
	case TypeDateTime2:
		v := int64(r.big(5)) - 1<<39
		micros := fraction(r, c.Meta)
		day, second := int(v>>17), int(v&(1<<17-1))
		return dateTime(day>>5/13, day>>5%13, day&31, second>>12, second>>6&63, second&63, micros, int(c.Meta)), nil
	case TypeTimestamp:
		return timestamp(r.uint32(), 0, 0), nil
	case TypeTimestamp2:
		v := uint32(r.big(4))
		return timestamp(v, fraction(r, c.Meta), int(c.Meta)), nil
	case TypeTime:
		v := int64(r.little(3)<<40) >> 40
		sign := ""
		if v < 0 {
			sign, v = "-", -v
		}
		return fmt.Sprintf("%s%02d:%02d:%02d", sign, v/10000, v/100%100, v%100), nil
	case TypeTime2:
		return clock(r, int(c.Meta)), nil
	}
	return nil, fmt.Errorf("unknown type %d", c.Type)
}

// fraction takes the microseconds of a time with the given number of digits.
func fraction(r *reader, digits uint16) int {
	n := (min(int(digits), 6) + 1) / 2
	v := int(r.big(n))
	for ; n < 3; n++ {
		v *= 100
	}
	return v
}

// clock takes a TIME. Number and fraction are stored as one number, which may be negative.
func clock(r *reader, digits int) string {
	digits = min(digits, 6)
	size := (digits + 1) / 2
	v := int64(r.big(3+size)) - 0x800000<<(8*size)
	sign := ""
	if v < 0 {
		sign, v = "-", -v
	}
	whole, micros := v>>(8*size), int(v&(1<<(8*size)-1))
	for n := size; n < 3; n++ {
		micros *= 100
	}
	return fmt.Sprintf("%s%02d:%02d:%02d%s", sign, whole>>12&0x3ff, whole>>6&63, whole&63, digitsOf(micros, digits))
}

// digitsOf formats a fraction of a second, with its decimal point.
func digitsOf(micros, digits int) string {
	if digits == 0 {
		return ""
	}
	return fmt.Sprintf(".%06d", micros)[:digits+1]
}

func date(year, month, day int) any {
	if t := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC); valid(t, year, month, day) {
		return t
	}
	return fmt.Sprintf("%04d-%02d-%02d", year, month, day)
}

func dateTime(year, month, day, hour, minute, second, micros, digits int) any {
	t := time.Date(year, time.Month(month), day, hour, minute, second, micros*1000, time.UTC)
	if valid(t, year, month, day) && hour < 24 && minute < 60 && second < 60 {
		return t
	}
	return fmt.Sprintf("%04d-%02d-%02d %02d:%02d:%02d%s", year, month, day, hour, minute, second,
		digitsOf(micros, digits))
}

func valid(t time.Time, year, month, day int) bool {
	return year > 0 && t.Year() == year && int(t.Month()) == month && t.Day() == day
}

func timestamp(seconds uint32, micros, digits int) any {
	if seconds == 0 && micros == 0 {
		return "0000-00-00 00:00:00" + digitsOf(0, digits)
	}
	return time.Unix(int64(seconds), int64(micros)*1000).UTC()
}

// digitBytes is the number of bytes for a number of DECIMAL digits.
var digitBytes = [10]int{0, 1, 1, 2, 2, 3, 3, 4, 4, 4}

// decimal takes a DECIMAL: groups of nine digits in four bytes. The first bit is inverted, and so are all bits of a
// negative number.
func decimal(r *reader, precision, scale int) (any, error) {
	if scale > precision || precision > 81 {
		return nil, ErrCorrupt
	}
	whole := precision - scale
	size := whole/9*4 + digitBytes[whole%9] + scale/9*4 + digitBytes[scale%9]
	b := append([]byte(nil), r.take(size)...)
	if r.failed || size == 0 {
		return nil, ErrCorrupt
	}
	text := make([]byte, 0, precision+3)
	if b[0] ^= 0x80; b[0]&0x80 != 0 {
		text = append(text, '-')
		for i := range b {
			b[i] ^= 0xff
		}
	}
	groups := reader{data: b}
	start := len(text)
	text = groups.digits(text, whole%9)
	for range whole / 9 {
		text = groups.digits(text, 9)
	}
	for len(text) > start && text[start] == '0' {
		text = append(text[:start], text[start+1:]...)
	}
	if len(text) == start {
		text = append(text, '0')
	}
	if scale > 0 {
		text = append(text, '.')
		for range scale / 9 {
			text = groups.digits(text, 9)
		}
		text = groups.digits(text, scale%9)
	}
	return string(text), nil
}

// digits appends a group of n digits.
func (r *reader) digits(dst []byte, n int) []byte {
	v := r.big(digitBytes[n])
	at := len(dst)
	dst = strconv.AppendUint(dst, v, 10)
	if n == 0 {
		return dst[:at]
	}
	for len(dst)-at < n {
		dst = append(dst, 0)
		copy(dst[at+1:], dst[at:])
		dst[at] = '0'
	}
	return dst
}
