package template_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/template"
)

// values are values of every type that a record has, and the text of each.
var values = map[string]struct {
	v    any
	text string
}{
	"nil":       {nil, ""},
	"million":   {1e6, "1000000"},
	"id":        {12345678.0, "12345678"},
	"fraction":  {0.1, "0.1"},
	"large":     {1e21, "1e+21"},
	"single":    {float32(16777216), "16777216"},
	"infinite":  {math.Inf(1), "Infinity"},
	"whole":     {int64(-5), "-5"},
	"unsigned":  {uint64(math.MaxUint64), "18446744073709551615"},
	"number":    {json.Number("9007199254740993.10"), "9007199254740993.10"},
	"yes":       {true, "true"},
	"string":    {"a <nil> & b", "a <nil> & b"},
	"bytes":     {[]byte("raw"), "raw"},
	"time":      {time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC), "2026-01-02T03:04:05.006Z"},
	"list":      {[]any{1e6, nil, "x"}, `[1000000,null,"x"]`},
	"object":    {map[string]any{"a": 1e6}, `{"a":1000000}`},
	"no list":   {[]any(nil), ""},
	"no object": {map[string]any(nil), ""},
}

// TestTextOfValues prints each value of a record in every way that templates offer. No output has the format of Go.
func TestTextOfValues(t *testing.T) {
	for name, value := range values {
		r := &record.Record{
			Metadata: record.NewMetadata(nil),
			After:    record.Structured(map[string]any{"v": value.v, "l": []any{value.v}}),
		}
		listed := value.text
		if name == "nil" || name == "no list" || name == "no object" {
			listed = ""
		}
		for text, want := range map[string]string{
			`{{ .Payload.After.v }}`:                      value.text,
			`{{ index .Payload.After "v" }}`:              value.text,
			`{{ $v := .Payload.After.v }}{{ $v }}`:        value.text,
			`{{ with $ }}{{ .Payload.After.v }}{{ end }}`: value.text,
			`{{ print .Payload.After.v }}`:                value.text,
			`{{ println .Payload.After.v }}`:              value.text + "\n",
			`{{ printf "%s" .Payload.After.v }}`:          value.text,
			`{{ printf "<%v>" .Payload.After.v }}`:        "<" + value.text + ">",
			`{{ .Payload.After.v | toString }}`:           value.text,
			`{{ cat .Payload.After.v }}`:                  value.text,
			`{{ join "," .Payload.After.l }}`:             listed,
			`{{ html (printf "%v" .Payload.After.v) }}`: strings.NewReplacer("<",
				"&lt;", ">", "&gt;", "&", "&amp;", `"`, "&#34;").Replace(value.text),
			`{{ eq (toString .Payload.After.v) "other" }}`: "false",
			`{{ eq .Payload.After.v .Payload.After.none }}`: map[bool]string{true: "true",
				false: "false"}[value.v == nil],
		} {
			got, err := run(text, false, r)
			if err != nil || got != want {
				t.Errorf("%s of %s: %q, %v; want %q", text, name, got, err, want)
			}
		}
	}
}

// TestVerbsOfNumbers checks that every numeric type accepts every verb of numbers, and that unsuitable verbs are
// refused.
func TestVerbsOfNumbers(t *testing.T) {
	for text, want := range map[string]string{
		`{{ printf "%d|%05d|%x" .Key.f .Key.i .Key.n }}`:      "5|00005|5",
		`{{ printf "%.2f|%8.1f|%e" .Key.f .Key.i .Key.n }}`:   "5.00|     5.0|5.000000e+00",
		`{{ printf "%5s|%-5s|%5v" .Key.f .Key.i .Key.none }}`: "    5|5    |     ",
		`{{ printf "%*d" 4 .Key.i }}`:                         "   5",
		`{{ printf "%q|%x" "a" "a" }}`:                        `"a"|61`,
		`{{ printf "%t" .Key.t }}`:                            "true",
		`{{ printf "%.3v" .Key.p }}`:                          "3.14",
		`{{ printf "%d" .Key.none }}`:                         "",
		`{{ printf "%d" "a" }}`:                               "error cannot print a string with %d",
		`{{ printf "%d" .Key.p }}`:                            "error cannot print a float64 with %d",
		`{{ printf "%f" .Key.t }}`:                            "error cannot print a bool with %f",
		`{{ add .Key.f 1000000 }}|{{ mulf .Key.f 1000000 }}`:  "1000005|5000000",
		`{{ quote .Key.f .Key.none }}|{{ squote .Key.i }}`:    `"5"|'5'`,
		`{{ sortAlpha (list 10 "b" 9.0) }}`:                   `["10","9","b"]`,
		`{{ list 1.0 1000000.0 }}|{{ dict "a" 1000000.0 }}`:   `[1,1000000]|{"a":1000000}`,
		`{{ .Key }}`: `{"f":5,"i":5,"n":5,"p":3.14159,"t":true}`,
	} {
		r := &record.Record{
			Key: record.Structured(map[string]any{"f": 5.0, "i": int64(5), "n": json.Number("5"), "p": 3.14159,
				"t": true}),
		}
		got, err := run(text, false, r)
		if reason, fails := strings.CutPrefix(want, "error "); fails {
			if err == nil || !strings.Contains(err.Error(), reason) {
				t.Errorf("%s: %q, %v; want the error %q", text, got, err, reason)
			}
		} else if err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", text, got, err, want)
		}
	}
}

// TestComparedNumbers compares numbers of all types by value.
func TestComparedNumbers(t *testing.T) {
	numbers := []any{
		math.Inf(-1), -1.5, int64(-1), 0.0, int64(1), 1.5, json.Number("1.75"), int64(1 << 53),
		json.Number("9007199254740993"), 9007199254740994.0, uint64(math.MaxInt64), uint64(math.MaxUint64), 1e300,
		json.Number("1e400"), math.Inf(1),
	}
	for i, a := range numbers {
		for j, b := range numbers {
			r := &record.Record{Key: record.Structured(map[string]any{"a": a, "b": b})}
			for name, want := range map[string]bool{
				"eq": i == j, "ne": i != j, "lt": i < j, "le": i <= j, "gt": i > j, "ge": i >= j,
			} {
				call := "{{ " + name + " .Key.a .Key.b }}"
				for _, text := range []string{call, "{{ with $ }}" + call + "{{ end }}"} {
					c, err := template.ParseCondition(text)
					if err != nil {
						t.Fatal(err)
					}
					if got, err := c.Match(new(template.TimeLimit), r); err != nil || got != want {
						t.Errorf("%s of %v and %v: %v, %v", text, a, b, got, err)
					}
				}
			}
		}
	}
	for text, want := range map[string]string{
		`{{ eq .Key.n 1 1.0 }}`: "true", `{{ eq .Key.n 2 "x" }}`: "incompatible types",
		`{{ lt .Key.n .Key.none }}`:    "incompatible types",
		`{{ eq .Key.none .Key.none }}`: "true", `{{ ne .Key.n .Key.none }}`: "true",
		`{{ eq .Key.nan .Key.nan }}`: "false",
	} {
		r := &record.Record{Key: record.Structured(map[string]any{"n": int64(1), "nan": math.NaN()})}
		if got, err := run(text, false, r); got != want && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %q, %v; want %q", text, got, err, want)
		}
	}
}

// TestExactPrintsNoNil checks that printing a missing value refuses the record, and that text that looks like it is
// printed.
func TestExactPrintsNoNil(t *testing.T) {
	r := &record.Record{Key: record.Structured(map[string]any{"nil": nil, "text": "<nil>"})}
	for text, want := range map[string]string{
		`{{ .Key.nil }}`: "null or missing", `{{ .Payload.After }}`: "null or missing", `{{ .Key.text }}`: "<nil>",
	} {
		parsed, err := template.Parse(text, template.Exact)
		if err != nil {
			t.Fatal(err)
		}
		out, err := parsed.Append(new(template.TimeLimit), nil, r)
		if string(out) != want && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %q, %v; want %q", text, out, err, want)
		}
	}
}
