package parse_test

import (
	"encoding/csv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/plugins/record"
)

// plainCSV returns the columns of a text by encoding/csv, and whether it is one record.
func plainCSV(text, delimiter string, lazy bool) ([]string, bool) {
	if text == "" || text == "\n" || text == "\r\n" { // encoding/csv skips it
		return []string{""}, true
	}
	r := csv.NewReader(strings.NewReader(text))
	r.Comma, r.LazyQuotes, r.FieldsPerRecord = rune(delimiter[0]), lazy, -1
	all, err := r.ReadAll()
	if err != nil || len(all) != 1 {
		return nil, false
	}
	return all[0], true
}

// FuzzCSV compares parse.csv with encoding/csv.
func FuzzCSV(f *testing.F) {
	for _, text := range []string{"", "a", "a,b", `"a,""b""",c`, `"a` + "\n" + `b",c`, `a"b,c`, `"a"b,"c`, `"a" ,b`,
		",,,\n", "\"\"\"\"\r\n", "é,\xff", "a\nb", "\"\n\"\n0"} {
		f.Add(text, true)
		f.Add(text, false)
	}
	f.Fuzz(func(t *testing.T, text string, lazy bool) {
		// Of these encoding/csv reads other texts: it changes line breaks in quotes and skips empty lines.
		if strings.Contains(text, "\r") || strings.Contains(text, "\n\n") || strings.HasPrefix(text, "\n") ||
			strings.HasSuffix(text, "\n") {
			return
		}
		for _, delimiter := range []string{",", ";"} {
			settings := map[string]string{"columns": "1", "delimiter": delimiter, "extra": "keep"}
			if lazy {
				settings["lazy"] = "true"
			}
			got, err := parseValue(t, "parse.csv", settings, text)
			want, ok := plainCSV(text, delimiter, lazy)
			if ok != (err == nil) {
				t.Fatalf("%q: the error is %v; encoding/csv made %q", text, err, want)
			}
			if ok {
				compareColumns(t, text, want, got)
			}
		}
	})
}

func compareColumns(t *testing.T, text string, want []string, got any) {
	t.Helper()
	members, _ := got.(map[string]any)
	if len(members) != len(want) {
		t.Fatalf("%q has the columns %v, want %q", text, got, want)
	}
	for i, column := range want {
		if members[number(i+1)] != column {
			t.Fatalf("%q has the columns %v, want %q", text, got, want)
		}
	}
}

func TestTypesOfColumns(t *testing.T) {
	for _, c := range []struct {
		kind, text string
		want       any
	}{
		{"int", "-5", int64(-5)}, {"int", "", nil}, {"float", "1e3", 1000.0}, {"float", "", nil},
		{"bool", "T", true}, {"bool", "", nil}, {"time", "", nil}, {"string", "", ""}, {"auto", "", ""},
		{"auto", "007", "007"}, {"auto", "+7", "+7"}, {"auto", "7", int64(7)}, {"auto", "7.50", 7.5},
		{"auto", "18446744073709551615", record.Number("18446744073709551615")}, {"auto", "NaN", "NaN"},
		{"auto", "True", "True"}, {"auto", "false", false},
	} {
		got, err := parseValue(t, "parse.csv", map[string]string{"columns": "a", "types": "a:" + c.kind}, c.text)
		if diff := cmp.Diff(map[string]any{"a": c.want}, got); err != nil || diff != "" {
			t.Errorf("%s %q: %v\n%s", c.kind, c.text, err, diff)
		}
	}
	for kind, text := range map[string]string{"int": "1.5", "float": "NaN", "bool": "yes", "time": "today"} {
		settings := map[string]string{"columns": "a", "types": "a:" + kind}
		if got, err := parseValue(t, "parse.csv", settings, text); err == nil {
			t.Errorf("%s %q is %v, want an error", kind, text, got)
		}
	}
}

func TestMissingAndExtraColumns(t *testing.T) {
	for _, c := range []struct {
		text, missing, extra string
		want                 map[string]any // nil: an error
	}{
		{"1", "refuse", "refuse", nil},
		{"1", "null", "refuse", map[string]any{"a": "1", "c": nil}},
		{"1,2", "null", "refuse", map[string]any{"a": "1", "c": nil}},
		{"1", "omit", "refuse", map[string]any{"a": "1"}},
		{"1,2,3,4", "refuse", "refuse", nil},
		{"1,2,3,4", "refuse", "drop", map[string]any{"a": "1", "c": "3"}},
		{"1,2,3,4,5", "refuse", "keep", map[string]any{"a": "1", "c": "3", "4": "4", "5": "5"}},
	} {
		settings := map[string]string{"columns": "a,,c", "missing": c.missing, "extra": c.extra}
		got, err := parseValue(t, "parse.csv", settings, c.text)
		if c.want == nil && err != nil {
			continue
		}
		if diff := cmp.Diff(any(c.want), got); err != nil || diff != "" {
			t.Errorf("%v %s: %v\n%s", settings, c.text, err, diff)
		}
	}
	settings := map[string]string{"columns": "2", "extra": "keep"}
	if got, err := parseValue(t, "parse.csv", settings, "1,2"); err == nil {
		t.Errorf("two columns with one name are %v, want an error", got)
	}
}

func TestBadSettingsOfCSV(t *testing.T) {
	wantRefused(t, "parse.csv", map[string]map[string]string{
		"columns":   {"columns": "a,b,a"},
		"delimiter": {"columns": "a", "delimiter": "none"},
		"quote":     {"columns": "a", "quote": ","},
		"types":     {"columns": "a", "types": "b:int"},
		"field":     {"columns": "a", "field": ".Payload"},
		"target":    {"columns": "a", "target": ".Metadata.x"},
	})
	_, err := configured(t, "parse.csv", map[string]string{"columns": "bytes,,ms", "types": "byte:int"})
	if err == nil || !strings.Contains(err.Error(), `there is no "byte"; did you mean "bytes"?; the names are bytes, ms`) {
		t.Errorf("a type of an unknown column: %v", err)
	}
	wantRefused(t, "parse.csv", map[string]map[string]string{"types": {"columns": "a", "types": "a:decimal"}})
	wantRefused(t, "parse.csv", map[string]map[string]string{"types": {"columns": "a", "types": "a:int,a:float"}})
	wantRefused(t, "parse.csv", map[string]map[string]string{"types": {"columns": "a", "types": "a"}})
}

func BenchmarkCSV(b *testing.B) {
	const text = `7,"Lamp, Globe",12.50,2024-01-02T03:04:05Z,web1,GET,/index.html,200`
	benchmark(b, "parse.csv", map[string]string{"columns": "a,b,c,d,e,f,g,h"}, text, func() {
		if _, err := csv.NewReader(strings.NewReader(text)).Read(); err != nil {
			b.Fatal(err)
		}
	})
}
