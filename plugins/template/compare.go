package template

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"reflect"
	"strconv"
	"time"
)

// numeric is a number of any type. whole is an int64, a uint64 or nil; without it the number is in f or text.
type numeric struct {
	whole any
	f     float64
	text  string // a json.Number that is not an integer of 64 bits
}

// numberOf returns v as a number, and whether it is one.
func numberOf(v any) (numeric, bool) {
	switch v := v.(type) {
	case int64:
		return numeric{whole: v}, true
	case float64:
		return floatNumber(v), true
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return numeric{whole: i}, true
		}
		if u, err := strconv.ParseUint(string(v), 10, 64); err == nil {
			return numeric{whole: u}, true
		}
		f, err := v.Float64()
		return numeric{f: f, text: string(v)}, err == nil || errors.Is(err, strconv.ErrRange)
	}
	switch r := reflect.ValueOf(v); {
	case r.CanInt():
		return numeric{whole: r.Int()}, true
	case r.CanUint():
		return numeric{whole: r.Uint()}, true
	case r.CanFloat():
		return floatNumber(r.Float()), true
	}
	return numeric{}, false
}

func floatNumber(f float64) numeric {
	if f == math.Trunc(f) && math.Abs(f) < 1<<63 {
		return numeric{whole: int64(f)}
	}
	return numeric{f: f}
}

func (n numeric) float() float64 {
	switch whole := n.whole.(type) {
	case int64:
		return float64(whole)
	case uint64:
		return float64(whole)
	}
	return n.f
}

func (n numeric) isNaN() bool { return n.whole == nil && math.IsNaN(n.f) }

// exact returns the number with enough precision to tell all different numbers apart, except texts of more than 150
// digits.
func (n numeric) exact() *big.Float {
	x := new(big.Float).SetPrec(512)
	switch whole := n.whole.(type) {
	case int64:
		return x.SetInt64(whole)
	case uint64:
		return x.SetUint64(whole)
	}
	if n.text != "" {
		if _, _, err := x.Parse(n.text, 10); err == nil {
			return x
		}
	}
	return x.SetFloat64(n.f)
}

// compareNumbers compares a and b. Neither may be NaN.
func compareNumbers(a, b numeric) int {
	if x, ok := a.whole.(int64); ok {
		if y, ok := b.whole.(int64); ok {
			return cmp.Compare(x, y)
		}
	}
	if a.whole == nil && b.whole == nil && a.text == "" && b.text == "" {
		return cmp.Compare(a.f, b.f)
	}
	return a.exact().Cmp(b.exact())
}

var errIncomparable = errors.New("incompatible types for comparison")

// comparableOf returns bytes as text, because they are compared with text.
func comparableOf(v any) any {
	switch v := v.(type) {
	case text:
		return string(v)
	case []byte:
		return string(v)
	}
	return v
}

// equalAny reports whether a equals one of the others. Numbers of different types are compared by value.
func equalAny(a any, others ...any) (bool, error) {
	if len(others) == 0 {
		return false, errors.New("missing argument for comparison")
	}
	for _, b := range others {
		if same, err := equalValues(comparableOf(a), comparableOf(b)); same || err != nil {
			return same, err
		}
	}
	return false, nil
}

func equalValues(a, b any) (bool, error) {
	if a == nil || b == nil {
		return a == nil && b == nil, nil
	}
	if x, ok := a.(time.Time); ok {
		if y, ok := b.(time.Time); ok {
			return x.Equal(y), nil
		}
	}
	ta, tb := reflect.TypeOf(a), reflect.TypeOf(b)
	x, isNumber := numberOf(a)
	y, areNumbers := numberOf(b)
	switch {
	case isNumber && areNumbers && isPlain(ta) && isPlain(tb):
		return !x.isNaN() && !y.isNaN() && compareNumbers(x, y) == 0, nil
	case ta == tb && ta.Comparable():
		return a == b, nil
	case ta.Kind() == tb.Kind() && ta.Kind() == reflect.String:
		return reflect.ValueOf(a).String() == reflect.ValueOf(b).String(), nil
	}
	return false, errIncomparable
}

// isPlain reports whether type t is a plain numeric type, and not one such as an operation whose numbers stand for
// something else.
func isPlain(t reflect.Type) bool {
	return t.PkgPath() == "" || t == reflect.TypeFor[json.Number]() || t == reflect.TypeFor[time.Duration]()
}

// ordered returns one of the functions lt, le, gt and ge.
func ordered(name string) func(a, b any) (bool, error) {
	return func(a, b any) (bool, error) {
		a, b = comparableOf(a), comparableOf(b)
		x, isNumber := numberOf(a)
		y, areNumbers := numberOf(b)
		if isNumber && areNumbers {
			return !x.isNaN() && !y.isNaN() && meets(name, compareNumbers(x, y)), nil
		}
		if x, ok := a.(time.Time); ok {
			if y, ok := b.(time.Time); ok {
				return meets(name, x.Compare(y)), nil
			}
		}
		if x, y := reflect.ValueOf(a), reflect.ValueOf(b); x.Kind() == reflect.String && y.Kind() == reflect.String {
			return meets(name, cmp.Compare(x.String(), y.String())), nil
		}
		return false, errIncomparable
	}
}
