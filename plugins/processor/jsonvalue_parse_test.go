package processor_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/conduit-agent/conduit/plugins/processor/jsonvalue"
)

var jsonvalueTexts = []string{
	`{"a":1,"b":[true,false,null,"x"],"c":{"d":-1.5e3}}`, `[]`, `{}`, ` "text" `, `null`, `0`, `-0`, `1e400`, `01`,
	`+1`, `1.`, `.5`, `1e`, `--1`,
	`{"a":1,"a":2}`, `{"a"}`, `{"a":}`, `{,}`, `{"a":1,}`, `[1,]`, `[1 2]`, `{"a" : 1 }`,
	"\"\u00e4\\u00e4\\ud83d\\ude00\\ud83d x\\n\\/\"", `"\x"`, `"\u12"`, "\"\x01\"", "\"\xff\"",
	`tru`, `nul`, `"open`, `{"a":1`, `[`, ``, ` `, `1 2`, `"\`, `123456789012345678901234567890`, `"\u12-4"`,
	`"\u+123"`, `9007199254740992`, `{"\ud83d":1}`, `"\ud83d\u0041"`,
}

// same compares with encoding/json, which reads all numbers as float64 and replaces invalid UTF-8. Here invalid UTF-8
// is an error.
func same(t *testing.T, b []byte) {
	t.Helper()
	got, err := jsonvalue.Parse(b)
	var want any
	wantErr := json.Unmarshal(b, &want)
	if bytes.HasPrefix(b, []byte("\xef\xbb\xbf")) || bytes.HasPrefix(b, []byte("\xff\xfe")) ||
		bytes.HasPrefix(b, []byte("\xfe\xff")) {
		return // encoding/json does not support byte order marks
	}
	if err != nil && wantErr == nil && (!utf8.Valid(b) || strings.Contains(err.Error(), "surrogates") &&
		replaces(want)) {
		return
	}
	if outOfRange := (*json.UnmarshalTypeError)(nil); err == nil && errors.As(wantErr, &outOfRange) {
		return // a number that is kept as text
	}
	if (err == nil) != (wantErr == nil) || err == nil && !reflect.DeepEqual(asFloats(got), want) {
		t.Errorf("%q: %#v, %v; encoding/json: %#v, %v", b, got, err, want, wantErr)
	}
}

// replaces reports whether a text in v has the replacement character.
func replaces(v any) bool {
	text, _ := json.Marshal(v)
	return bytes.Contains(text, []byte("\ufffd")) || bytes.Contains(text, []byte(`\ufffd`))
}

// Invalid UTF-8 is an error that names the place.
func TestTextThatIsNotUnicode(t *testing.T) {
	for text, want := range map[string]string{
		"\"Zo\xeb\"": "byte 4 is 0xeb", `{"a":"\ud83d"}`: `\ud83d`,
		`{"\udc00":1}`: "surrogates", "\xff\xfe\"\x00": "", "\xef\xbb\xbf\xff": "not UTF-8",
	} {
		if _, err := jsonvalue.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
		if _, err := jsonvalue.ParseElements([]byte("["+text+"]"), 1000, nil); err == nil {
			t.Errorf("an element %q is taken", text)
		}
	}
	if v, err := jsonvalue.Parse([]byte("\xff\xfe\"\x00\xeb\x00\"\x00")); v != "ë" || err != nil {
		t.Errorf("UTF-16: %v, %v", v, err)
	}
}

func asFloats(v any) any {
	switch v := v.(type) {
	case int64:
		return float64(v)
	case json.Number:
		f, _ := v.Float64()
		return f
	case []any:
		for i := range v {
			v[i] = asFloats(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = asFloats(v[k])
		}
	}
	return v
}

func TestParseIsEncodingJSON(t *testing.T) {
	for _, text := range jsonvalueTexts {
		same(t, []byte(text))
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range jsonvalueTexts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) { same(t, b) })
}

func TestIntegersAreExact(t *testing.T) {
	for text, want := range map[string]any{
		"9007199254740992": float64(1 << 53), "9007199254740993": int64(1<<53 + 1),
		"-9007199254740993":   int64(-1<<53 - 1),
		"9223372036854775807": int64(1<<63 - 1), "42": 42.0, "9223372036854775808": json.Number("9223372036854775808"),
		"1152921504606846976": int64(1 << 60), "-0": math.Copysign(0, -1),
		"0": 0.0, "-1e0": -1.0, "1e400": json.Number("1e400"),
		"12345678901234567890.12": json.Number("12345678901234567890.12"),
		"1234567.891234567891":    json.Number("1234567.891234567891"),
	} {
		if got, err := jsonvalue.Parse([]byte(text)); err != nil || got != want {
			t.Errorf("%s: %T %v, %v; want %T %v", text, got, got, err, want, want)
		}
	}
}

func TestNestingIsBounded(t *testing.T) {
	if _, err := jsonvalue.Parse([]byte(strings.Repeat("[", 2000) + strings.Repeat("]", 2000))); err == nil ||
		!strings.Contains(err.Error(), "nested more than") {
		t.Errorf("%v", err)
	}
}
