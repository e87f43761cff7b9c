package javascript_test

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/plugins/record"
)

func exact() map[string]any {
	return map[string]any{"d": json.Number("12345678901234567890.12"), "i": int64(9007199254740993),
		"u": json.Number("18446744073709551615"), "huge": json.Number("1e400"),
		"l": []any{json.Number("0.1234567890123456789"), int64(-1152921504606846976)}, "n": int64(7), "f": 1.5}
}

// A script that passes on a record or a field does not change its numbers.
func TestScriptsPassNumbersOn(t *testing.T) {
	for _, body := range []string{
		`return rec`,
		`rec.Payload.After = {...rec.Payload.After}; return rec`,
		`rec.Payload.After = Object.fromEntries(Object.entries(rec.Payload.After)); return rec`,
		`rec.Payload.After = JSON.parse(JSON.stringify(rec.Payload.After)); return rec`,
		`rec.Payload.After = JSON.parse(JSON.stringify(rec.Payload.After, (k, v) => v, 2), (k, v) => v); return rec`,
		`rec.Payload.After = JSON.parse(JSON.stringify(rec)).Payload.After; return rec`,
		`let r = new Record(); r.Payload.After = rec.Payload.After; return [r]`,
		`rec.Payload.After.l = rec.Payload.After.l.map(x => x); return rec`,
		`rec.Payload.After.l = [...rec.Payload.After.l].reverse().reverse(); return rec`,
		`const {d, ...rest} = rec.Payload.After; rec.Payload.After = {...rest, d}; return rec`,
		`rec.Payload.After.d = Object(rec.Payload.After.d); rec.Payload.After.i = Object(rec.Payload.After.i); ` +
			`return rec`,
	} {
		f, r := process(t, "function process(rec) { "+body+" }", record.Record{After: record.Structured(exact())})
		if f.Kind != 0 && f.Err == nil && len(f.Pieces) == 1 {
			r = f.Pieces[0]
		}
		m, _ := r.After.Structured()
		if f.Err != nil || !cmp.Equal(exact(), m) {
			t.Errorf("%s: %v\n%s", body, f.Err, cmp.Diff(exact(), m))
		}
	}
}

// Expressions of a record a and their results as text. A result that begins with TypeError is an error.
var exactNumbers = map[string]string{
	`String(a.d)`:                          "12345678901234567890.12",
	"`${a.d} ${a.i}`":                      "12345678901234567890.12 9007199254740993",
	`a.d + 1`:                              "12345678901234567000",
	`a.d > 12345678901234567000 - 1000000`: "true",
	`a.d * 0`:                              "0",
	`a.d.toFixed(1)`:                       "12345678901234567168.0",
	`typeof a.d + typeof a.i + typeof a.n + typeof a.f`: "objectbigintnumbernumber",
	`a.d instanceof Number`:                             "true",
	`a.i === 9007199254740993n`:                         "true",
	`a.i > 9007199254740992`:                            "true",
	`a.u - 1n`:                                          "18446744073709551614",
	`a.i + 1`:                                           "TypeError: Cannot mix BigInt",
	`Number(a.i)`:                                       "9007199254740992",
	`Number(a.huge)`:                                    "Infinity",
	`JSON.stringify(a)`: `{"d":12345678901234567890.12,"f":1.5,"huge":1e400,"i":9007199254740993,` +
		`"l":[0.1234567890123456789,-1152921504606846976],"n":7,"u":18446744073709551615}`,
	`JSON.stringify([a.d, 5n, "1\"2"])`:     `[12345678901234567890.12,5,"1\"2"]`,
	`JSON.stringify(a.d)`:                   "12345678901234567890.12",
	`JSON.stringify({a: a.d}, null, 1)`:     "{\n \"a\": 12345678901234567890.12\n}",
	`JSON.parse("12345678901234567890.12")`: "12345678901234567890.12",
	`JSON.parse("[1,9007199254740993,9007199254740994]")` +
		`.map(x => typeof x).join()`: "number,bigint,number",
	`JSON.parse('{"a":"12345678901234567890.12","b":-0,"c":1e3}').a.length`: "23",
	`JSON.parse('[12345678901234567890.12', 1)`:                             "SyntaxError",
	`JSON.parse('[012345678901234567890.12]')`:                              "SyntaxError",
	`JSON.parse('[1234567890123456789012', (k, v) => v)`:                    "SyntaxError",
	`JSON.parse('{"a":[1.2345678901234567890]}', ` +
		`(k, v) => k === "0" ? String(v) : v).a[0]`: "1.2345678901234567890",
	`(a.x = 2n ** 63n, a.x)`:                           "9223372036854775808",
	`Number.prototype.valueOf.call(1) + a.d.valueOf()`: "12345678901234567000",
	`Object.getPrototypeOf(a.d).toString.call({})`: "TypeError: this is no " +
		"number of a record",
}

func TestNumbersThatADoubleWouldChange(t *testing.T) {
	evaluate(t, "a = rec.Payload.After", exactNumbers,
		func() record.Record { return record.Record{After: record.Structured(exact())} })
}

func TestBigIntsOfScripts(t *testing.T) {
	for expression, want := range map[string]any{
		"5n": int64(5), "-(2n ** 63n)": int64(math.MinInt64),
		"2n ** 64n": json.Number("18446744073709551616"), "Object(7n)": int64(7), "[3n]": []any{int64(3)},
	} {
		f, r := process(t, "function process(rec) { rec.Key = {v: "+expression+"}; return rec }", record.Record{})
		m, _ := r.Key.Structured()
		if f.Err != nil || fmt.Sprintf("%#v", m["v"]) != fmt.Sprintf("%#v", want) {
			t.Errorf("%s: %#v, %v", expression, m["v"], f.Err)
		}
	}
}
