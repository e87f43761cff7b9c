package window

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/processor/fieldref"
	"github.com/conduit-agent/conduit/plugins/record"
)

// value is what was computed of one column.
type value struct {
	count int64
	v     any // nil: nothing yet
}

var errNumber = errors.New("it is no number")

// check reports whether v can go into the column next.
func (c *column) check(v any) error {
	if c.function == "sum" {
		_, err := add(int64(0), v)
		return err
	}
	return nil
}

// take adds a value that was checked.
func (c *column) take(a *value, v any) error {
	a.count++
	var err error
	switch {
	case c.function == "count":
	case a.v == nil || c.function == "last":
		a.v = record.CloneValue(v)
	case c.function == "sum":
		a.v, err = add(a.v, v)
	case c.function == "min" || c.function == "max":
		var order int
		if order, err = compare(v, a.v); err == nil && order != 0 && (order < 0) == (c.function == "min") {
			a.v = v
		}
	}
	return err
}

// add adds two numbers: integers as such, unless the sum is out of their range.
func add(a, b any) (any, error) {
	x, okX := integer(a)
	y, okY := integer(b)
	if okX && okY {
		if sum := x + y; (sum > x) == (y > 0) {
			return sum, nil
		}
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
