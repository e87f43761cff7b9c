package record

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// exactDigits is a number of significant digits for which every decimal number survives the conversion to float64 and
// back to the shortest text, unless its exponent is extreme.
const exactDigits = 15

// Number converts a JSON number to a value of structured data. Integers of 64 bits become int64, other numbers float64.
// A number that would change as a float64 becomes a json.Number, which keeps its text. A number changes if the shortest
// text of the float64 is a different number: 0.1 and 1.50 do not change; 12345678901234567890.12, 1e400 and
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

// IsNumber reports whether text is a JSON number.
func IsNumber[T string | []byte](text T) bool {
	isDigit := func(c byte) bool { return c >= '0' && c <= '9' }
	if len(text) > 1 && text[0] >= '1' && text[0] <= '9' { // an integer, most often
		i := 1
		for i < len(text) && isDigit(text[i]) {
			i++
		}
		if i == len(text) {
			return true
		}
	}
	return len(text) > 0 && (text[0] == '-' || isDigit(text[0])) && isDigit(text[len(text)-1]) &&
		json.Valid([]byte(text))
}

func isWhole(text string) bool { return !strings.ContainsAny(text, ".eE") }

// ExactFloat returns the float64 of a JSON number, and whether it is exact in the sense of Number.
func ExactFloat(text string) (f float64, exact bool) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return f, false
	}
	if len(text) <= exactDigits {
		// A number with so few digits is always exact, if it is finite and not subnormal.
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
		return f, true // 0, with or without a sign
	}
	if len(digits) <= exactDigits && math.Abs(f) >= 1e-300 {
		return f, true
	}
	if f == 0 || len(digits) > 17 { // shortest texts have at most 17 digits
		return f, false
	}
	var shortest, others [32]byte
	again, exponentAgain, _ := significant(others[:0], string(strconv.AppendFloat(shortest[:0], f, 'e', -1, 64)))
	return f, exponent == exponentAgain && bytes.Equal(digits, again)
}

// significant appends the digits of a number from the first to the last nonzero one, and returns the exponent of the
// number in the form 0.digits times a power of ten. It gives up if the exponent has too many digits.
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
		case point: // a 0 after the point and before all digits
			exponent--
		}
	}
	return bytes.TrimRight(dst, "0"), exponent, true
}

// maxExactInteger is the largest n for which a float64 holds all integers up to n.
const maxExactInteger = 1 << 53

// isExactInteger reports whether a float64 holds n exactly, so that its shortest text has all digits.
func isExactInteger(n int64) bool { return n >= -maxExactInteger && n <= maxExactInteger }
