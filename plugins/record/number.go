package record

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// exactDigits is how many significant digits every decimal number may have that a float64 holds so that its shortest
// text is that number again, if its exponent is not extreme.
const exactDigits = 15

// Number returns the value of structured data for a number as JSON writes it. Whole numbers of 64 bits are int64,
// others float64; a number that a float64 would change is a json.Number, which keeps its text. To change means that
// the shortest text of the float64 is another number: 0.1 and 1.50 do not change, 12345678901234567890.12, 1e400 and
// 18446744073709551615 do.
func Number(text string) any {
	if len(text) <= len("-9223372036854775808") && isWhole(text) {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && !(n == 0 && text[0] == '-') {
			return n
		}
	}
	if f, ok := ExactFloat(text); ok {
		return f
	}
	return json.Number(text)
}

// IsNumber reports whether text is a number as JSON writes it.
func IsNumber[T string | []byte](text T) bool {
	isDigit := func(c byte) bool { return c >= '0' && c <= '9' }
	if len(text) > 1 && text[0] >= '1' && text[0] <= '9' { // a whole number, most often
		i := 1
		for i < len(text) && isDigit(text[i]) {
			i++
		}
		if i == len(text) {
			return true
		}
	}
	return len(text) > 0 && (text[0] == '-' || isDigit(text[0])) && isDigit(text[len(text)-1]) && json.Valid([]byte(text))
}

func isWhole(text string) bool { return !strings.ContainsAny(text, ".eE") }

// ExactFloat returns the float64 of a number as JSON writes it, and whether it does not change the number: see Number.
func ExactFloat(text string) (f float64, exact bool) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return f, false
	}
	if len(text) <= exactDigits {
		// So few digits always fit, and so does an exponent that leaves the number finite and is not that of a subnormal one.
		if f != 0 && math.Abs(f) >= 1e-300 {
			return f, true
		}
	}
	var scratch [64]byte
	digits, exponent, ok := significant(scratch[:0], text)
	if !ok {
		return f, false
	}
	if len(digits) == 0 {
		return f, true // 0, perhaps with a sign
	}
	if len(digits) <= exactDigits && math.Abs(f) >= 1e-300 {
		return f, true
	}
	if f == 0 || len(digits) > 17 { // no shortest text has more than 17 digits
		return f, false
	}
	var shortest, others [32]byte
	again, exponentAgain, _ := significant(others[:0], string(strconv.AppendFloat(shortest[:0], f, 'e', -1, 64)))
	return f, exponent == exponentAgain && bytes.Equal(digits, again)
}

// significant appends the digits of a number from its first to its last that is not 0, and returns the exponent of
// the number as 0.digits times a power of ten. It gives up where the exponent has too many digits.
func significant(dst []byte, text string) (digits []byte, exponent int, ok bool) {
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		n, err := strconv.Atoi(strings.TrimPrefix(text[i+1:], "+"))
		if err != nil {
			return nil, 0, false
		}
		text, exponent = text[:i], n
	}
	text = strings.TrimPrefix(text, "-")
	point := false
	for i := range len(text) {
		switch c := text[i]; {
		case c == '.':
			point = true
			continue
		case c != '0' || len(dst) > 0:
			dst = append(dst, c)
			if !point {
				exponent++
			}
		case point: // a 0 behind the point and before all digits
			exponent--
		}
	}
	return bytes.TrimRight(dst, "0"), exponent, true
}

// maxExactInteger is the greatest integer up to which a float64 holds all.
const maxExactInteger = 1 << 53

// isExactInteger reports whether a float64 holds n, so that its shortest text has all digits.
func isExactInteger(n int64) bool { return n >= -maxExactInteger && n <= maxExactInteger }
