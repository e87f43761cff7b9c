package schema

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// decimalBytes returns v as a big-endian two's complement number of size bytes, or of the minimum length if size is 0.
// v is the text of a decimal number, or a number.
func decimalBytes(t *avroType, v any, size int) ([]byte, error) {
	if b, ok := v.([]byte); ok { // the default in a schema
		return b, nil
	}
	text, err := decimalNumber(v)
	if err != nil {
		return nil, err
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil, fmt.Errorf("must be a decimal number, not %s", typeName(v))
	}
	r.Mul(r, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(t.scale)), nil)))
	if !r.IsInt() {
		return nil, fmt.Errorf("must not have more than %d decimal places", t.scale)
	}
	n := r.Num()
	if t.digits > 0 && len(new(big.Int).Abs(n).String()) > t.digits {
		return nil, fmt.Errorf("must not have more than %d digits, and %d after the decimal point",
			t.digits, t.scale)
	}
	width := n.BitLen()/8 + 1
	if size == 0 {
		size = width
	}
	switch {
	case size > decimalSize:
		return nil, errTooLong
	case width > size:
		return nil, errRange
	}
	if n.Sign() < 0 {
		n = new(big.Int).Add(n, new(big.Int).Lsh(big.NewInt(1), uint(8*size)))
	}
	return n.FillBytes(make([]byte, size)), nil
}

// decimalNumber returns the text of a number, with bounded digits and exponent.
func decimalNumber(v any) (string, error) {
	var text string
	switch v := v.(type) {
	case string:
		text = v
	case bool, map[string]any, []any, nil:
		return "", fmt.Errorf("must be a decimal number, not %s", typeName(v))
	default:
		text = fmt.Sprint(v)
	}
	if len(text) > maxDecimal {
		return "", errTooLong
	}
	if i := strings.IndexAny(text, "eEpP"); i >= 0 {
		if n, err := strconv.Atoi(strings.TrimPrefix(text[i+1:], "+")); err == nil &&
			(n > maxDecimal || n < -maxDecimal) {
			return "", errTooLong
		}
	}
	return text, nil
}

// decimalText is the reverse of decimalBytes.
func decimalText(t *avroType, b []byte) (string, error) {
	if len(b) > decimalSize {
		return "", errTooLong
	}
	n := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	return withScale(n, t.scale), nil
}

// withScale returns the text of n * 10^-scale with scale decimal places: 123456 with scale 2 is 1234.56, 100 is 1.00.
func withScale(n *big.Int, scale int) string {
	digits := new(big.Int).Abs(n).String()
	if missing := scale + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	if scale > 0 {
		digits = digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
	}
	if n.Sign() < 0 {
		return "-" + digits
	}
	return digits
}
