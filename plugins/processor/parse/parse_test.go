package parse_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/plugins/processor/parse"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

func number(n int) string { return strconv.Itoa(n) }

// clock is a clock that stands.
type clock struct{ sdk.Clock }

func (clock) Now() time.Time { return time.Date(2026, 11, 27, 9, 59, 59, 0, time.UTC) }

var ctx = sdk.WithEnv(context.Background(), &sdk.Env{Clock: clock{}})

// open returns a processor with these settings.
func open(t testing.TB, name string, settings map[string]string) sdk.Processor {
	t.Helper()
	p, err := configured(t, name, settings)
	if err == nil {
		err = p.Open(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func configured(t testing.TB, name string, settings map[string]string) (sdk.Processor, error) {
	t.Helper()
	for _, plugin := range parse.Plugins() {
		if plugin.Name == name {
			p := plugin.New()
			return p, p.Configure(ctx, settings)
		}
	}
	t.Fatalf("there is no processor %s", name)
	return nil, nil
}

// process returns the record after the processor, and why it was refused.
func process(t testing.TB, p sdk.Processor, r record.Record) (record.Record, error) {
	t.Helper()
	all := []record.Record{r}
	b := sdk.NewProcessBatch("token", all, nil)
	if err := p.Process(ctx, b); err != nil {
		t.Fatal(err)
	}
	for _, fate := range b.Fates() {
		return all[0], fate.Err
	}
	return all[0], nil
}

// parseValue returns the result for a value.
func parseValue(t testing.TB, name string, settings map[string]string, v any) (any, error) {
	t.Helper()
	p := open(t, name, with(settings, "field", ".Payload.After.v"))
	r, err := process(t, p, record.Record{After: record.Structured(map[string]any{"v": v})})
	m, _ := r.After.Structured()
	return m["v"], err
}

func wantRefused(t *testing.T, name string, bad map[string]map[string]string) {
	t.Helper()
	for setting, settings := range bad {
		_, err := configured(t, name, settings)
		var wrong sdk.SettingError
		if !errors.As(err, &wrong) || wrong.Setting != setting {
			t.Errorf("%s with %v: the error is %v, want one of %s", name, settings, err, setting)
		}
	}
}

// benchmark measures a processor and the library that it is compared with.
func benchmark(b *testing.B, name string, settings map[string]string, text string, library func()) {
	b.Run("library", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			library()
		}
	})
	b.Run("processor", func(b *testing.B) {
		p := open(b, name, settings)
		all, batch := make([]record.Record, 1000), &sdk.ProcessBatch{}
		raw := []byte(text)
		b.ReportAllocs()
		for n := 0; n < b.N; n += len(all) {
			for i := range all {
				all[i].After = record.Raw(raw)
			}
			batch.Reset(nil, all, nil)
			if err := p.Process(ctx, batch); err != nil || batch.Fates() != nil {
				b.Fatal(err, batch.Fates())
			}
		}
	})
}

var csvSettings = map[string]string{"columns": "a,b"}

func with(settings map[string]string, more ...string) map[string]string {
	all := map[string]string{}
	for name, v := range settings {
		all[name] = v
	}
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

func structured(m map[string]any) record.Record { return record.Record{After: record.Structured(m)} }

func TestResultGoesToItsTarget(t *testing.T) {
	made := map[string]any{"a": "1", "b": "2"}
	for _, c := range []struct {
		name     string
		settings []string
		in, want record.Record
	}{
		{"in place", nil, record.Record{After: record.Raw([]byte("1,2"))}, structured(made)},
		{"beside the text", []string{"field", ".Payload.After.s", "target", ".Payload.After.x.y"},
			structured(map[string]any{"s": "1,2"}),
			structured(map[string]any{"s": "1,2", "x": map[string]any{"y": made}})},
		{"from the metadata to the key", []string{"field", ".Metadata.m", "target", ".Key", "remove", "true"},
			record.Record{Metadata: record.Metadata{{Key: "m", Value: "1,2"}}},
			record.Record{Metadata: record.Metadata{}, Key: record.Structured(made)}},
		{"instead of the object around", []string{"field", ".Payload.After.s", "target", ".Payload.After"},
			structured(map[string]any{"s": "1,2", "z": true}), structured(made)},
		{"into the object around", []string{"field", ".Payload.After.a", "target", ".Payload.After", "merge", "true",
			"remove", "true"}, structured(map[string]any{"a": "1,2", "b": true, "z": true}),
			structured(map[string]any{"a": "1", "b": "2", "z": true})},
		{"into nothing", []string{"field", ".Payload.After.s", "target", ".Payload.After.x", "merge", "true"},
			structured(map[string]any{"s": "1,2"}), structured(map[string]any{"s": "1,2", "x": made})},
		{"missing", []string{"field", ".Payload.After.s"}, structured(map[string]any{"z": 1.0}),
			structured(map[string]any{"z": 1.0})},
		{"null", []string{"field", ".Payload.After.s"}, structured(map[string]any{"s": nil}),
			structured(map[string]any{"s": nil})},
		{"nothing", nil, record.Record{}, record.Record{}},
	} {
		got, err := process(t, open(t, "parse.csv", with(csvSettings, c.settings...)), c.in.Clone())
		if err != nil || !got.Equal(c.want) {
			t.Errorf("%s: %v\n%s", c.name, err, cmp.Diff(c.want, got))
		}
	}
}

// A record that cannot be parsed, or whose result has no place, passes unchanged but for the tag.
func TestRecordWithAnErrorIsUnchanged(t *testing.T) {
	for _, c := range []struct {
		name     string
		settings []string
		in       record.Record
		want     string
	}{
		{"not a line", nil, record.Record{After: record.Raw([]byte("1"))}, ".Payload.After: it has 1 of 2 columns"},
		{"no text", []string{"field", ".Payload.After.s"}, structured(map[string]any{"s": true}),
			".Payload.After.s: unexpected data type boolean"},
		{"no object around the text", []string{"field", ".Payload.After.s.t"}, structured(map[string]any{"s": true}),
			"does not contain structured data"},
		{"no object around the result", []string{"field", ".Payload.After.s", "target", ".Payload.After.x.y", "remove",
			"true"}, structured(map[string]any{"s": "1,2", "x": true}), "does not contain structured data"},
	} {
		settings := with(csvSettings, c.settings...)
		_, err := process(t, open(t, "parse.csv", settings), c.in.Clone())
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, want %s", c.name, err, c.want)
		}
		got, err := process(t, open(t, "parse.csv", with(settings, "on-error", "keep")), c.in.Clone())
		if err != nil || !got.Equal(c.in) {
			t.Errorf("%s, kept: %v\n%s", c.name, err, cmp.Diff(c.in, got))
		}
		got, err = process(t, open(t, "parse.csv", with(settings, "on-error", "tag")), c.in.Clone())
		if tag := got.Metadata.Get("parse.error"); err != nil || !strings.Contains(tag, c.want) {
			t.Errorf("%s, tagged: %v, the tag is %q", c.name, err, tag)
		}
		got.Metadata = c.in.Metadata
		if !got.Equal(c.in) {
			t.Errorf("%s, tagged:\n%s", c.name, cmp.Diff(c.in, got))
		}
	}
}
