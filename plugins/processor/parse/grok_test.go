package parse_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	gogrok "github.com/elastic/go-grok"
	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/plugins/record"
)

func TestNamedPatterns(t *testing.T) {
	for _, c := range []struct {
		name     string
		settings []string
		text     string
		want     any // nil: an error
	}{
		{"types and objects", []string{"pattern",
			"^%{IP:client.address} %{NUMBER:ms:double} %{INT:n:long} %{WORD:ok:boolean}$"},
			"10.0.0.7 2.5 -3 true", map[string]any{"client": map[string]any{"address": "10.0.0.7"}, "ms": 2.5,
				"n": int64(-3), "ok": true}},
		{"an access log", []string{"pattern", "%{COMBINEDAPACHELOG}"},
			`10.0.0.7 - ann [10/Oct/2026:13:55:36 +0000] "GET /a HTTP/1.1" 200 17 "-" "curl/8"`,
			map[string]any{"source": map[string]any{"address": "10.0.0.7"}, "user": map[string]any{"name": "ann"},
				"timestamp": "10/Oct/2026:13:55:36 +0000", "url": map[string]any{"original": "/a"},
				"http": map[string]any{"version": "1.1", "request": map[string]any{"method": "GET"},
					"response": map[string]any{"status_code": int64(200), "body": map[string]any{"size": int64(17)}}},
				"user_agent": map[string]any{"original": "curl/8"}}},
		{"patterns of one's own", []string{"pattern", "%{ORDER}", "patterns.ORDER", "order %{ID:id:int}", "patterns.ID",
			`\d+`}, "an order 17", map[string]any{"id": int64(17)}},
		{"types of the settings count", []string{"pattern", "%{NUMBER:a:int} %{NUMBER:b}", "types", "a:string,*:auto"}, "1 2",
			map[string]any{"a": "1", "b": record.Number("2")}},
		{"without text", []string{"pattern", "^%{WORD:a}(?: %{WORD:b})?$"}, "x", map[string]any{"a": "x"}},
		{"nothing but members without text", []string{"pattern", "^x(?:%{WORD:b})?$"}, "x", map[string]any{}},
		{"no match", []string{"pattern", "^%{WORD:a}$"}, "x y", nil},
		{"not of the type", []string{"pattern", "%{WORD:a:int}"}, "x", nil},
		{"infinity", []string{"pattern", "%{WORD:a:float}"}, "Inf", nil},
	} {
		settings := map[string]string{}
		for i := 0; i < len(c.settings); i += 2 {
			settings[c.settings[i]] = c.settings[i+1]
		}
		got, err := parseValue(t, "parse.grok", settings, c.text)
		if (err != nil) != (c.want == nil) {
			t.Errorf("%s: the error is %v", c.name, err)
		} else if diff := cmp.Diff(c.want, got); err == nil && diff != "" {
			t.Errorf("%s:\n%s", c.name, diff)
		}
	}
}

// An expression is checked when the file is saved, and takes neither time nor memory beyond its bound.
func TestPatternsAreChecked(t *testing.T) {
	double := map[string]string{"pattern": "%{D40:x}", "patterns.D0": "ab"}
	for i := range 40 {
		double[fmt.Sprintf("patterns.D%d", i+1)] = fmt.Sprintf("%%{D%d}%%{D%d}", i, i)
	}
	for want, settings := range map[string]map[string]string{
		`no pattern "NOTHING"`:          {"pattern": "%{NOTHING:a}"},
		"uses itself":                   {"pattern": "%{A:a}", "patterns.A": "x%{B}", "patterns.B": "%{A}"},
		"larger than 256 KiB":           double,
		"names no member":               {"pattern": "%{IP}"},
		`the type of "a", not "number"`: {"pattern": "%{INT:a:number}"},
		`"a" is a value, and as a part of "a.b" an object`: {"pattern": "%{INT:a} %{INT:a.b}"},
		"is no name of a member":                           {"pattern": "%{INT:a..b}"},
		"missing closing":                                  {"pattern": "(%{INT:a}"},
	} {
		wantRefused(t, "parse.grok", map[string]map[string]string{"pattern": settings})
		if _, err := configured(t, "parse.grok", settings); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: the error is %v, want %s", settings, err, want)
		}
	}
	wantRefused(t, "parse.grok", map[string]map[string]string{
		"patterns.A B": {"pattern": "%{INT:a}", "patterns.A B": "x"},
		"types":        {"pattern": "%{INT:a}", "types": "b:int"}})
}

// FuzzGrok compares the members with the groups of the expression that the patterns stand for.
func FuzzGrok(f *testing.F) {
	for _, text := range []string{"", "a=1", "ab=\xff\n", "=", "b=1=2"} {
		f.Add(text)
	}
	expression := regexp.MustCompile(`(?P<key>[ab]*)=(?:(?P<number>\d+)|(?P<rest>.*))`)
	settings := map[string]string{"pattern": "%{AB:key}=(?:%{DIGITS:number}|%{GREEDYDATA:rest})", "patterns.AB": "[ab]*",
		"patterns.DIGITS": `\d+`}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseValue(t, "parse.grok", settings, text)
		groups := expression.FindStringSubmatch(text)
		if (groups == nil) != (err != nil) {
			t.Fatalf("%q: the error is %v, the groups are %q", text, err, groups)
		}
		members, _ := got.(map[string]any)
		for i, name := range expression.SubexpNames() {
			if v, ok := members[name]; groups != nil && name != "" && (ok && v != groups[i] || !ok && groups[i] != "") {
				t.Errorf("%q: %s is %v, want %q", text, name, v, groups[i])
			}
		}
	})
}

func BenchmarkGrok(b *testing.B) {
	const text = `127.0.0.1 - bob [10/Oct/2000:13:55:36 -0700] "GET /index.html HTTP/1.0" 200 2326`
	library, err := gogrok.NewComplete()
	if err == nil {
		err = library.Compile("%{COMMONAPACHELOG}", true)
	}
	if err != nil {
		b.Fatal(err)
	}
	benchmark(b, "parse.grok", map[string]string{"pattern": "%{COMMONAPACHELOG}"}, text, func() {
		if found, err := library.ParseString(text); err != nil || len(found) == 0 {
			b.Fatal(found, err)
		}
	})
}
