package window

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/processor/fieldref"
	"github.com/conduit-agent/conduit/plugins/record"
)

// value is the computed value of a column.
type value struct {
	count int64
	v     any // nil: no value yet; the sum of an average, a *digest or a *distinct
}

var errNumber = errors.New("it is no number")

// check returns an error if v cannot be added to the column.
func (c *column) check(v any) error {
	switch c.function {
	case "percentile":
		_, err := toFloat(v)
		return err
	case "distinct":
		switch v.(type) {
		case string, bool, int64, float64, json.Number, time.Time, []byte: // can always be encoded
			return nil
		}
		_, err := record.AppendValue(nil, v)
		return err
	case "sum", "avg":
		if _, ok := number(v); ok {
			return nil
		}
		if n, ok := v.(json.Number); ok && len(n) > maxExponent {
			return fmt.Errorf("%.50s has too many digits to be added", n)
		}
		_, err := add(int64(0), v)
		return err
	}
	return nil
}

// take adds a value that check accepted.
func (c *column) take(a *value, v any) error {
	a.count++
	var err error
	switch {
	case c.function == "count":
	case c.function == "percentile":
		if a.v == nil {
			a.v = &digest{}
		}
		var f float64
		if f, err = toFloat(v); err == nil {
			err = a.v.(*digest).add(f)
		}
	case c.function == "distinct":
		if a.v == nil {
			a.v = &distinct{}
		}
		err = a.v.(*distinct).add(v)
	case a.v == nil || c.function == "last":
		a.v = record.CloneValue(v)
	case c.function == "sum" || c.function == "avg":
		a.v, err = add(a.v, v)
	case c.function == "min" || c.function == "max":
		var order int
		if order, err = compare(v, a.v); err == nil && order != 0 && (order < 0) == (c.function == "min") {
			a.v = v
		}
	}
	return err
}

// result returns the computed value, nil for none.
func (c *column) result(a *value) any {
	switch v := a.v.(type) {
	case *digest:
		return v.percentile(c.percentile)
	case *distinct:
		return v.count()
	}
	switch {
	case c.function == "count" || c.function == "distinct":
		return a.count
	case c.function == "avg" && a.v != nil:
		return average(a.v, a.count)
	}
	return a.v
}

// average returns the sum of n numbers divided by n, rounded to a float64.
func average(sum any, n int64) any {
	if f, ok := number(sum); ok && !isText(sum) {
		if i, ok := integer(sum); ok {
			f, _ = new(big.Rat).SetFrac64(i, n).Float64()
			return f
		}
		return f / float64(n)
	}
	total, _, err := exactly(sum)
	if err != nil {
		return nil // impossible: it was computed
	}
	f, _ := total.Quo(total, new(big.Rat).SetInt64(n)).Float64()
	return f
}

// add adds two numbers. The sum of integers is an integer unless it is out of range. If one number is kept as text
// because a float64 would change it, the sum has all digits.
func add(a, b any) (any, error) {
	x, okX := integer(a)
	y, okY := integer(b)
	if okX && okY {
		if sum := x + y; (sum > x) == (y > 0) {
			return sum, nil
		}
	}
	if isText(a) || isText(b) {
		return addTexts(a, b)
	}
	f, okF := number(a)
	g, okG := number(b)
	if !okF || !okG {
		return nil, errNumber
	}
	return f + g, nil
}

func integer(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case int:
		return int64(v), true
	}
	return 0, false
}

func isText(v any) bool { _, ok := v.(json.Number); return ok }

// maxExponent bounds the exponents of numbers that are added with all digits.
const maxExponent = 1000

// maxSum bounds the digits of a sum, which may have more digits than the added numbers.
const maxSum = 10 * maxExponent

// addTexts adds two numbers with all digits.
func addTexts(a, b any) (any, error) {
	for _, v := range []any{a, b} {
		if f, ok := number(v); ok && math.IsInf(f, 0) {
			return f, nil
		}
	}
	x, places, errX := exactly(a)
	y, placesY, errY := exactly(b)
	if err := errors.Join(errX, errY); err != nil {
		return nil, err
	}
	places = max(places, placesY)
	return record.Number(x.Add(x, y).FloatString(places)), nil
}

// exactly returns a number, and its number of decimal places.
func exactly(v any) (n *big.Rat, places int, err error) {
	f, isFloat := number(v)
	_, isInteger := integer(v)
	if !isFloat && !isText(v) || isFloat && !isInteger && math.IsInf(f, 0) {
		return nil, 0, errNumber
	}
	text, err := record.Text(v)
	if err != nil {
		return nil, 0, err
	}
	digits, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	if i := strings.IndexByte(digits, '.'); i >= 0 {
		places = len(digits) - i - 1
	}
	if exponent != "" {
		n, err := strconv.Atoi(exponent)
		if err != nil || n > maxExponent || n < -maxExponent {
			return nil, 0, fmt.Errorf("the exponent of %.50s is too great to be added", text)
		}
		places = max(0, places-n)
	}
	if len(digits) > maxSum {
		return nil, 0, fmt.Errorf("%.50s has too many digits to be added", text)
	}
	n, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil, 0, errNumber
	}
	return n, places, nil
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, !math.IsNaN(v)
	case float32:
		return float64(v), v == v
	}
	n, ok := integer(v)
	return float64(n), ok
}

// compare orders two numbers, times or texts.
func compare(a, b any) (int, error) {
	if x, ok := integer(a); ok {
		if y, ok := integer(b); ok {
			return cmp.Compare(x, y), nil
		}
	}
	if x, ok := number(a); ok {
		if y, ok := number(b); ok {
			return cmp.Compare(x, y), nil
		}
	}
	if f, ok := number(b); ok && math.IsInf(f, 0) && isText(a) {
		return cmp.Compare(0, f), nil
	}
	if f, ok := number(a); ok && math.IsInf(f, 0) && isText(b) {
		return cmp.Compare(f, 0), nil
	}
	if isText(a) || isText(b) {
		x, _, errX := exactly(a)
		y, _, errY := exactly(b)
		if errX == nil && errY == nil {
			return x.Cmp(y), nil
		}
	}
	switch x := a.(type) {
	case string:
		if y, ok := b.(string); ok {
			return strings.Compare(x, y), nil
		}
	case time.Time:
		if y, ok := b.(time.Time); ok {
			return x.Compare(y), nil
		}
	}
	return 0, fmt.Errorf("cannot compare values of types %s and %s", fieldref.Kind(a), fieldref.Kind(b))
}
