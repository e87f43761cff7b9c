package record_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
)

// unusual returns values that JSON cannot represent, with their form in the agent. Values without a form are refused.
func unusual() map[string]struct {
	value any
	want  string
} {
	cycle := map[string]any{}
	cycle["a"] = []any{cycle}
	return map[string]struct {
		value any
		want  string
	}{
		"NaN":                  {math.NaN(), `"NaN"`},
		"NaN of 32 bits":       {float32(math.NaN()), `"NaN"`},
		"Infinity":             {math.Inf(1), `"Infinity"`},
		"-Infinity":            {math.Inf(-1), `"-Infinity"`},
		"Infinity of 32 bits":  {float32(math.Inf(1)), `"Infinity"`},
		"NaN in a list":        {[]any{1, math.NaN()}, `[1,"NaN"]`},
		"NaN in an object":     {map[string]any{"a": math.NaN()}, `{"a":"NaN"}`},
		"great number":         {json.Number("1e400"), `1e400`},
		"many digits":          {json.Number("123456789012345678901234567890"), `123456789012345678901234567890`},
		"number that is none":  {json.Number("NaN"), `"NaN"`},
		"number with more":     {json.Number("1 "), `"1 "`},
		"year 10000":           {time.Date(10000, 1, 2, 3, 4, 5, 600, time.UTC), `"+010000-01-02T03:04:05.0000006Z"`},
		"before Christ":        {time.Date(-43, 3, 15, 0, 0, 0, 0, time.UTC), `"-000043-03-15T00:00:00Z"`},
		"text that is Latin-1": {"caf\xe9", `"Y2Fm6Q=="`},
		"list of Latin-1":      {[]string{"caf\xe9", "b"}, `["Y2Fm6Q==","b"]`},
		"name in Latin-1":      {map[string]any{"caf\xe9": 1}, `{"caf\\xe9":1}`},
		"texts in Latin-1":     {map[string]string{"\xe9": "\xe9"}, `{"\\xe9":"6Q=="}`},
		"half a surrogate":     {"\xed\xa0\x80", `"7aCA"`},
		"NUL":                  {"a\x00b", `"a\u0000b"`},
		"channel":              {make(chan int), ""},
		"function":             {func() {}, ""},
		"complex number":       {complex(1, 2), ""},
		"structure with NaN":   {struct{ A float64 }{math.NaN()}, ""},
		"nested too deeply":    {deep(5000), ""},
		"cycle":                {cycle, ""},
	}
}

func deep(n int) any {
	var v any = 1.0
	for range n {
		v = []any{v}
	}
	return v
}

func TestUnusualValues(t *testing.T) {
	for name, c := range unusual() {
		t.Run(name, func(t *testing.T) {
			r := record.Record{Position: []byte("1"), After: record.Structured(map[string]any{"v": c.value})}
			got, err := record.AppendJSON(nil, &r)
			if c.want == "" {
				if err == nil {
					t.Errorf("got %.100s, want an error", got)
				}
			} else if want := `"after":{"v":` + c.want + `}}}`; err != nil || !strings.HasSuffix(string(got), want) {
				t.Errorf("got %s, %v\nwant … %s", got, err, want)
			} else if n := r.Content(); n != len(c.want)+len(`{"v":}`) {
				t.Errorf("content is %d bytes, want %d", n, len(c.want)+len(`{"v":}`))
			}
			checkEncodable(t, r)
		})
	}
}

// checkEncodable checks that every encoder writes the encodable form of r, and a dead letter that contains it.
func checkEncodable(t *testing.T, r record.Record) {
	t.Helper()
	e := r.Encodable()
	for _, one := range []record.Record{e, {Position: []byte("2"), After: record.Structured(e.Map())}} {
		for name, encode := range map[string]func([]byte, *record.Record) ([]byte, error){
			"JSON": record.AppendJSON, "inspected": record.AppendInspectJSON, "wire": record.AppendWire,
		} {
			b, err := encode(nil, &one)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			var again record.Record
			switch name {
			case "JSON":
				err = json.Unmarshal(b, &again)
			case "wire":
				again, err = record.ParseWire(b)
				_, _ = again.After.Structured()
			default:
				if !json.Valid(b) {
					t.Errorf("not JSON: %s", b)
				}
			}
			if err != nil {
				t.Errorf("%s: cannot read what was written: %v", name, err)
			}
		}
	}
}

// Encodable returns records that an encoder accepts unchanged.
func TestEncodableChangesNothingElse(t *testing.T) {
	m := map[string]any{"a": math.NaN(), "b": "\xff", "c": deep(900), "d": time.Unix(1, 0)}
	r := record.Record{Key: record.Raw([]byte("k")), Before: record.Structured(m)}
	if got, ok := r.Encodable().Before.Structured(); !ok || len(got) != len(m) {
		t.Errorf("got %v", got)
	}
	r.Before = record.Structured(map[string]any{"a": make(chan int), "b": 1})
	if raw, _ := r.Encodable().Before.Raw(); string(raw) != `{"a":"(chan int)","b":1}` {
		t.Errorf("got %s", raw)
	}
}

func TestNamesThatAreNotUTF8(t *testing.T) {
	r := record.Record{Metadata: record.Metadata{{Key: "a\xff", Value: "ä\xe9b"}}}
	got, err := record.AppendJSON(nil, &r)
	if want := `"metadata":{"a\\xff":"ä\\xe9b"}`; err != nil || !strings.Contains(string(got), want) {
		t.Errorf("got %s, %v, want %s in it", got, err, want)
	}
	wire, err := record.AppendWire(nil, &r)
	if err != nil {
		t.Fatal(err)
	}
	again, err := record.ParseWire(wire)
	if want := (record.Metadata{{Key: `a\xff`, Value: `ä\xe9b`}}); err != nil || !again.Metadata.Equal(want) {
		t.Errorf("got %v, %v, want %v", again.Metadata, err, want)
	}
}
