package parse_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestPairs(t *testing.T) {
	for _, c := range []struct {
		name, text string
		settings   []string
		want       map[string]any
	}{
		{"logfmt", `level=info msg="a \"b\"" took=1.5 ok`, []string{"types", "*:auto"},
			map[string]any{"level": "info", "msg": `a "b"`, "took": 1.5, "ok": true}},
		{"nothing", " \n", nil, map[string]any{}},
		{"an empty value", "a= b=", nil, map[string]any{"a": "", "b": ""}},
		{"separators in values", "a=b=c", nil, map[string]any{"a": "b=c"}},
		{"quoted keys", `"a b"=1 "c"`, nil, map[string]any{"a b": "1", "c": true}},
		{"escapes", `a="\n\t\\\"\/\u00e9\ud83d\ude00\ud83d\d\u12"`, nil, map[string]any{
			"a": "\n\t\\\"/é😀\ufffd\\d\\u12"}},
		{"other separators", "a : 1,b:2 ,, c", []string{"pair-separator", ",", "key-separator", ":", "bare", "null"},
			map[string]any{"a": "1", "b": "2", "c": nil}},
		{"separators between quotes", `"a" : "1,2" , b: 'x:y'`, []string{"pair-separator", ",", "key-separator", ":",
			"quotes", `'"`}, map[string]any{"a": "1,2", "b": "x:y"}},
		{"lines", "a  1 2\n\"b\" 3\n", []string{"pair-separator", "newline", "key-separator", "space"},
			map[string]any{"a": "1 2", "b": "3"}},
		{"no quotes", `a="b`, []string{"quotes", "none"}, map[string]any{"a": `"b`}},
		{"last", "a=1 a=2", nil, map[string]any{"a": "2"}},
		{"first", "a=1 a=2", []string{"duplicates", "first"}, map[string]any{"a": "1"}},
		{"list", "a=1 b=2 a=3 a=4", []string{"duplicates", "list"},
			map[string]any{"a": []any{"1", "3", "4"}, "b": "2"}},
		{"drop", "a b=1", []string{"bare", "drop", "prefix", "x."}, map[string]any{"x.b": "1"}},
	} {
		got, err := parseValue(t, "parse.kv", with(nil, c.settings...), c.text)
		if diff := cmp.Diff(any(c.want), got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", c.name, err, diff)
		}
	}
	for text, settings := range map[string][]string{
		"=1": nil, `a="b`: nil, `a="b\`: nil, `a="b"c`: nil, `"a"b=1`: nil, `""=1`: nil,
		"a": {"bare", "refuse"}, "a=1 a=2": {"duplicates", "refuse"}, "a=x": {"types", "a:int"},
	} {
		if got, err := parseValue(t, "parse.kv", with(nil, settings...), text); err == nil {
			t.Errorf("%q is %v, want an error", text, got)
		}
	}
	wantRefused(t, "parse.kv", map[string]map[string]string{
		"pair-separator": {"pair-separator": "none"},
		"key-separator":  {"key-separator": "space"},
		"quotes":         {"quotes": "="},
	})
}

// FuzzKV reads pairs that encoding/json has quoted, and any text.
func FuzzKV(f *testing.F) {
	for _, text := range []string{"", "a", `a="b c" d`, `"\`, "a=\xff", `\ud83d\`, "=", "\u2028<"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = parseValue(t, "parse.kv", nil, text)
		if !utf8.ValidString(text) || text == "" {
			return
		}
		b, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parseValue(t, "parse.kv", nil, strings.Repeat(string(b)+"="+string(b)+"\t", 2))
		if diff := cmp.Diff(any(map[string]any{text: text}), got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", b, err, diff)
		}
	})
}

func BenchmarkKV(b *testing.B) {
	const text = `time=2024-01-02T03:04:05Z level=info msg="request served" method=GET path=/index.html status=200`
	benchmark(b, "parse.kv", nil, text, func() {
		made := map[string]any{}
		for _, pair := range strings.Fields(text) {
			key, value, _ := strings.Cut(pair, "=")
			made[key] = value
		}
	})
}
