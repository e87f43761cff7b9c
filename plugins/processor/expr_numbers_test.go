package processor_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/plugins/processor/expr"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

const exactAmount = "12345678901234567890.12"

func amounts() record.Record {
	return record.Record{After: record.Structured(map[string]any{"d": json.Number(exactAmount),
		"e":    json.Number("1234567.891234567891"),
		"less": json.Number("12345678901234567890.11"),
		"huge": json.Number("1e400"), "u": json.Number("18446744073709551615"),
		"i": int64(9007199254740993), "n": 2.0, "l": []any{json.Number("1234567.891234567891"), 2.0}, "s": "x"})}
}

// Expressions pass on numbers that a float64 would change, order them by all digits, and round them in computations.
func TestExpressionsOfNumbers(t *testing.T) {
	for expression, want := range map[string]any{
		"after.d":                 json.Number(exactAmount),
		"{a: [after.d, after.i]}": map[string]any{"a": []any{json.Number(exactAmount), int64(9007199254740993)}},
		"text(after.d)":           exactAmount, "string(after.u)": "18446744073709551615",
		"after.d > 5 ? after.d : 0": json.Number(exactAmount),
		"filter(after.l, # > 3)":    []any{json.Number("1234567.891234567891")},
		"after.d > after.less":      true, "after.d < after.less": false,
		"after.d <= after.d": true, "after.d >= after.huge": false,
		"after.u > 9223372036854775807": true, "5 < after.d": true, "after.d > after.n && after.n < 3": true,
		"after.d == after.d": true, "after.d == after.less": false, "after.d != after.n": true,
		"after.i == 9007199254740993": true, "after.d in [after.d]": true,
		"after.e + 1": 1234568.8912345679, "after.n * after.e": 2469135.7824691357,
		"-after.e": -1234567.8912345679, "after.i + 1": int64(9007199254740994),
		"int(after.e)": int64(1234567), "float(after.d)": 12345678901234567890.12,
		"round(after.e)": 1234568.0, "sum(after.l)": 1234569.8912345679,
		"sum(after.l, # * 2)": 2469139.7824691357, "max(after.e, 1)": 1234567.8912345679,
		"after.s + text(after.e)": "x1234567.891234567891",
		"toJSON(after.l)":         "[\n  1234567.891234567891,\n  2\n]",
		"after.huge + 1":          "error out of the range of a float", "int(after.u)": "error no integer of 64 bits",
		"after.s > after.d": "error invalid operation", "after.s * 2": "error invalid operation",
	} {
		f, r := exprProcess(t, expr.Map(), "mapping", ".Payload.After.v = "+expression, amounts())
		m, _ := r.After.Structured()
		if reason, fails := strings.CutPrefix(textOrNone(want), "error "); fails {
			if f.Err == nil || !strings.Contains(f.Err.Error(), reason) {
				t.Errorf("%s: %v, %v; want the error %q", expression, m["v"], f.Err, reason)
			}
		} else if f.Err != nil || !cmp.Equal(want, m["v"]) {
			t.Errorf("%s: %v, %s", expression, f.Err, cmp.Diff(want, m["v"]))
		}
	}
	for expression, keep := range map[string]bool{"after.d > 1e19": true, "after.d > 1e20": false,
		"after.l[0] < after.d": true} {
		if f, _ := exprProcess(t, expr.Filter(), "expression", expression,
			amounts()); f.Err != nil || (f.Kind == sdk.Filtered) == keep {
			t.Errorf("%s: %+v", expression, f)
		}
	}
}

func textOrNone(v any) string {
	s, _ := v.(string)
	return s
}
