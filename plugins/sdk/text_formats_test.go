package sdk_test

import (
	"context"
	"encoding/csv"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/plugins/processor/parse"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// formatting is a destination that formats records.
type formatting struct {
	sdk.DestinationBase
	header string
	lines  []string
}

func (*formatting) Parameters() sdk.Parameters { return nil }

func (*formatting) Configure(context.Context, map[string]string) error { return nil }

func (f *formatting) Open(ctx context.Context) error {
	f.header = string(sdk.RecordHeader(ctx))
	return nil
}

func (f *formatting) Write(ctx context.Context, records []record.Record) (int, error) {
	for i := range records {
		line, err := sdk.RecordFormat(ctx)([]byte("> "), &records[i])
		if err != nil {
			if string(line) != "> " {
				err = fmt.Errorf("%w, after it appended %q", err, line)
			}
			return i, err
		}
		f.lines = append(f.lines, strings.TrimPrefix(string(line), "> "))
	}
	return len(records), nil
}

// format returns the header and the lines of payloads.
func format(t testing.TB, name, options string, payloads ...any) (header string, lines []string, err error) {
	t.Helper()
	f := &formatting{}
	d := sdk.Standard(sdk.Connector{NewDestination: func() sdk.Destination { return f }}).NewDestination()
	settings := map[string]string{"sdk.record.format": name, "sdk.record.format.options": options}
	if err := d.Configure(t.Context(), settings); err != nil {
		return "", nil, err
	}
	if err := d.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, v := range payloads {
		r := record.Record{After: record.Raw([]byte("raw"))}
		if m, ok := v.(map[string]any); ok {
			r.After = record.Structured(m)
		}
		if _, err := d.Write(t.Context(), []record.Record{r}); err != nil {
			return f.header, f.lines, err
		}
	}
	return f.header, f.lines, nil
}

func TestFormatsOfText(t *testing.T) {
	order := map[string]any{"id": int64(1) << 60, "name": `Lamp, "round"`, "price": 1.5, "tags": []any{"a", nil},
		"address": map[string]any{"city": "Bern"}, "at": time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC), "none": nil,
		"a.b": "x"}
	for _, c := range []struct{ name, options, header, line string }{
		{"csv", "id, name, address.city, none, missing.x, a.b", "id,name,address.city,none,missing.x,a.b",
			`1152921504606846976,"Lamp, ""round""",Bern,,,x`},
		{"csv", "price,tags,at,delimiter=;", "price;tags;at", `1.5;"[""a"",null]";2024-01-02T03:04:05Z`},
		{"csv", "name,id,delimiter=tab,header=false", "", "\"Lamp, \"\"round\"\"\"\t1152921504606846976"},
		{"csv", "none", "none", `""`},
		{"logfmt", "id,name,none,address.city", "", `id=1152921504606846976 name="Lamp, \"round\"" address.city=Bern`},
		{"logfmt", "", "", `a.b=x address="{\"city\":\"Bern\"}" at=2024-01-02T03:04:05Z id=1152921504606846976 ` +
			`name="Lamp, \"round\"" price=1.5 tags="[\"a\",null]"`},
	} {
		header, lines, err := format(t, c.name, c.options, order)
		if err != nil || header != c.header || !slices.Equal(lines, []string{c.line}) {
			t.Errorf("%s with %s: %v\ngot  %q, %q\nwant %q, %q", c.name, c.options, err, header, lines, c.header, c.line)
		}
	}
}

func TestWrongFormatsOfText(t *testing.T) {
	for _, c := range []struct {
		name, options string
		payload       any
		want          string
	}{
		{"csv", "", nil, "the format csv needs names of columns"},
		{"csv", "header=false", nil, "the format csv needs names of columns"},
		{"csv", "a,b,a", nil, `column "a" comes twice`},
		{"csv", "a,delimiter=ab", nil, `cannot parse option "delimiter=ab"`},
		{"csv", "a,delimiter=\"", nil, `cannot parse option`},
		{"csv", "a,header=no", nil, `cannot parse option "header=no"`},
		{"csv", "a", "raw", "the payload is no object"},
		{"csv", "b,a", map[string]any{"b": "x", "a": func() {}}, `column "a": `},
		{"logfmt", "a b", nil, `"a b" is no key of logfmt`},
		{"logfmt", "", "raw", "the payload is no object"},
		{"logfmt", "", map[string]any{"a": "x", "a=b": "y"}, `"a=b" is no key of logfmt`},
		{"logfmt", "", map[string]any{"a": "x", "b": "\xff"}, `"b": it is no valid UTF-8`},
	} {
		_, lines, err := format(t, c.name, c.options, c.payload)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "appended") {
			t.Errorf("%s with %s: %q, the error is %v, want %s", c.name, c.options, lines, err, c.want)
		}
	}
}

// Readers read the lines again.
func TestFormatsAreReadAgain(t *testing.T) {
	rnd := rand.New(rand.NewPCG(rand.Uint64(), 0))
	pieces := []string{"a", `"`, ",", "\n", "\r", " ", "é", ";", "=", `\`, "\t", "\x01", "<"}
	kv := parse.KV().New()
	if err := kv.Configure(t.Context(), map[string]string{}); err != nil {
		t.Fatal(err)
	}
	payloads, want := make([]any, 20_000), make([][]string, 20_000)
	for i := range payloads {
		m := map[string]any{}
		for _, name := range []string{"a", "b", "c"} {
			text := ""
			for range rnd.IntN(4) {
				text += pieces[rnd.IntN(len(pieces))]
			}
			m[name] = text
			want[i] = append(want[i], text)
		}
		payloads[i] = m
	}
	_, lines, err := format(t, "csv", "a,b,c", payloads...)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range lines {
		got, err := csv.NewReader(strings.NewReader(line)).Read()
		expected := slices.Clone(want[i])
		for j := range expected { // encoding/csv changes line breaks
			expected[j] = strings.ReplaceAll(expected[j], "\r\n", "\n")
		}
		if err != nil || !slices.Equal(got, expected) {
			t.Fatalf("%q becomes %q and then %q: %v", want[i], line, got, err)
		}
	}
	if _, lines, err = format(t, "logfmt", "", payloads...); err != nil {
		t.Fatal(err)
	}
	for i, line := range lines {
		all := []record.Record{{After: record.Raw([]byte(line))}}
		b := sdk.NewProcessBatch("token", all, nil)
		if err := kv.Process(t.Context(), b); err != nil || b.Fates() != nil {
			t.Fatalf("%q: %v %v", line, err, b.Fates())
		}
		got, _ := all[0].After.Structured()
		if diff := cmp.Diff(payloads[i], any(got)); diff != "" || strings.ContainsAny(line, "\r\n") {
			t.Fatalf("%q becomes %q\n%s", payloads[i], line, diff)
		}
	}
}

func BenchmarkFormats(b *testing.B) {
	r := record.Record{After: record.Structured(map[string]any{"id": int64(17), "name": "Lamp, round", "price": 1.5,
		"city": "Bern"})}
	for name, options := range map[string]string{"csv": "id,name,price,city", "logfmt": "id,name,price,city"} {
		b.Run(name, func(b *testing.B) {
			d := sdk.Standard(sdk.Connector{NewDestination: func() sdk.Destination { return &formatting{} }}).NewDestination()
			settings := map[string]string{"sdk.record.format": name, "sdk.record.format.options": options}
			if err := d.Configure(b.Context(), settings); err != nil {
				b.Fatal(err)
			}
			all := make([]record.Record, 1000)
			for i := range all {
				all[i] = r
			}
			b.ReportAllocs()
			for n := 0; n < b.N; n += len(all) {
				if _, err := d.Write(b.Context(), all); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
