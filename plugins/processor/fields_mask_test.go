package processor_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/plugins/processor/fields"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

func fieldsConfigure(name string, settings map[string]string) (sdk.Processor, error) {
	for _, plugin := range fields.Plugins() {
		if plugin.Name == name {
			p := plugin.New()
			return p, p.Configure(context.Background(), p.Parameters().ApplyDefaults(settings))
		}
	}
	return nil, nil
}

func masked(t *testing.T, settings map[string]string, r record.Record) record.Record {
	t.Helper()
	p, err := fieldsConfigure("field.mask", settings)
	if err != nil {
		t.Fatal(err)
	}
	b := sdk.NewProcessBatch(1, []record.Record{r}, nil)
	if err := p.Process(context.Background(), b); err != nil || b.Fates() != nil {
		t.Fatal(err, b.Fates())
	}
	return *b.Record(0)
}

func TestMaskPatterns(t *testing.T) {
	for _, c := range []struct{ pattern, text, want string }{
		{"card", "4111111111111111 and 4111111111111112", "* and 4111111111111112"}, // second: wrong check digit
		{"card", "5500-0000-0000-0004, 378282246310005", "*, *"},
		{"card", "order 1234567890", "order 1234567890"},
		{"email", "a.b+c@example.co.uk, not @ or a@b", "*, not @ or a@b"},
		{"ssn", "123-45-6789 and 123-456-789", "* and 123-456-789"},
		{"iban", "CH93 0076 2011 6238 5295 7 but CH93 0076 2011 6238 5295 8", "* but CH93 0076 2011 6238 5295 8"},
		{"iban", "GB82WEST12345698765432", "*"},
		{"ipv4", "from 192.168.0.1 to 256.1.1.1", "from * to 256.1.1.1"},
		{"phone", "call +41 79 123 45 67 now", "call * now"},
	} {
		r := masked(t, map[string]string{"patterns": c.pattern, "with": "*"},
			record.Record{After: record.Raw([]byte(c.text))})
		if got, _ := r.After.Raw(); string(got) != c.want {
			t.Errorf("%s in %q: %q, want %q", c.pattern, c.text, got, c.want)
		}
	}
}

func TestMaskSearchesAllTexts(t *testing.T) {
	in := record.Record{
		Metadata: record.NewMetadata(map[string]string{"opencdc.collection": "a@b.ch", "user": "a@b.ch"}),
		Key:      record.Raw([]byte("a@b.ch")),
		Before: record.Structured(map[string]any{"l": []any{"a@b.ch", map[string]any{"m": "<a@b.ch>"}}, "n": int64(7),
			"b": []byte("a@b.ch"), "x": []byte{0xff}}),
		After: record.Raw([]byte("\xffa@b.ch")), // not text
	}
	want := record.Record{
		Metadata: record.NewMetadata(map[string]string{"opencdc.collection": "a@b.ch", "user": "#"}),
		Key:      record.Raw([]byte("a@b.ch")),
		Before: record.Structured(map[string]any{"l": []any{"#", map[string]any{"m": "<#>"}}, "n": int64(7),
			"b": []byte("#"), "x": []byte{0xff}}),
		After: record.Raw([]byte("\xffa@b.ch")),
	}
	got := masked(t, map[string]string{"fields": ".Payload,.Metadata", "patterns": "email", "with": "#"}, in)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMaskMethods(t *testing.T) {
	for want, settings := range map[string]map[string]string{
		"*****7890": {"method": "truncate"}, "******890": {"method": "truncate", "keep": "3"},
		"*********": {"method": "truncate", "keep": "5"},
	} {
		settings["fields"] = ".Payload.After.n"
		r := masked(t, settings, record.Record{After: record.Structured(map[string]any{"n": int64(134567890)})})
		if m, _ := r.After.Structured(); m["n"] != want {
			t.Errorf("%v: %v, want %s", settings, m["n"], want)
		}
	}
}

func TestSettingsThatCannotBe(t *testing.T) {
	for want, c := range map[string]struct {
		name     string
		settings map[string]string
	}{
		`"key": is required for method hash`:        {"field.mask", map[string]string{"method": "hash"}},
		`"patterns": "visa" is none of`:             {"field.mask", map[string]string{"patterns": "visa"}},
		`"regex": error parsing regexp`:             {"field.mask", map[string]string{"regex": "("}},
		`"fields": .Operation cannot be among`:      {"field.exclude", map[string]string{"fields": ".Key,.Operation"}},
		`has the wrong format: want reference:name`: {"field.rename", map[string]string{"mapping": ".Key.a"}},
		`cannot rename one of the top-level fields`: {"field.rename", map[string]string{"mapping": ".Key:x"}},
		`to an empty name`:                          {"field.rename", map[string]string{"mapping": ".Key.a:"}},
		`"field": .Payload cannot be set`: {"field.set",
			map[string]string{"field": ".Payload", "value": "x"}},
		`.Metadata cannot be set as a whole`: {"field.set",
			map[string]string{"field": ".Metadata", "value": "x"}},
		`cannot hold a value of type int`: {"field.set",
			map[string]string{"field": ".Metadata.x", "value": "1", "type": "int"}},
		`"value": strconv.ParseInt`: {"field.set",
			map[string]string{"field": ".Key.x", "value": "1.5", "type": "int"}},
		`"value": cannot set .Operation`: {"field.set",
			map[string]string{"field": ".Operation", "value": "upsert"}},
		`"value": cannot parse the template`: {"field.set",
			map[string]string{"field": ".Key.x", "value": "{{ nothing }}"}},
		`.Key cannot hold a int`: {"field.convert",
			map[string]string{"field": ".Key", "type": "int"}},
	} {
		if _, err := fieldsConfigure(c.name, c.settings); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s %v: %v, want %s", c.name, c.settings, err, want)
		}
	}
}
