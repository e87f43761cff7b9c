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
		{"ipv6", "from 2001:db8::1 to ::ffff:10.0.0.1.", "from * to *."},
		{"ipv6", "addr:fe80::1%eth0 [2001:db8::1]:443 fe80::2:refused", "addr:*%eth0 [*]:443 *:refused"},
		{"ipv6", "at 12:30:45, std::string, 00:11:22:33:44:55, ::", "at 12:30:45, std::string, 00:11:22:33:44:55, ::"},
		{"ipv6", strings.Repeat("x:", 300) + "fe80::1", strings.Repeat("x:", 300) + "*"},
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
		"1345*****": {"method": "keep-first"},
	} {
		settings["fields"] = ".Payload.After.n"
		r := masked(t, settings, record.Record{After: record.Structured(map[string]any{"n": int64(134567890)})})
		if m, _ := r.After.Structured(); m["n"] != want {
			t.Errorf("%v: %v, want %s", settings, m["n"], want)
		}
	}
}

func TestMaskAddresses(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"10.1.2.3", "10.1.2.0"},
		{"10.1.2.3:8080", "10.1.2.0:8080"},
		{"10.1.2.3/32", "10.1.2.0/24"},
		{"10.1.2.3/8", "10.1.2.0/8"},
		{"2001:db8:1:2::3", "2001:db8:1::"},
		{"[2001:db8:1:2::3]:443", "[2001:db8:1::]:443"},
		{"[2001:db8:1:2::3]", "[2001:db8:1::]"},
		{"fe80:0:0:7::1%eth0", "fe80::"},
		{"[fe80:0:0:7::1%eth0]:80", "[fe80::]:80"},
		{"::ffff:10.1.2.3", "::ffff:10.1.2.0"},
		{"[::ffff:10.1.2.3]:80", "[::ffff:10.1.2.0]:80"},
		{"2001:db8:1:2::3/64", "2001:db8:1::/48"},
	} {
		for _, text := range []string{c.in, c.want} { // a replay sees the second
			got, err := maskOne(t, map[string]string{"method": "ip"}, text)
			if err != nil || got != c.want {
				t.Errorf("%s: %v %v, want %s", text, got, err, c.want)
			}
		}
	}
	for _, text := range []any{"", "localhost", "10.1.2", "10.1.2.3, 10.1.2.4", "[10.1.2.3]", "10.1.2.3/33", int64(7)} {
		if got, err := maskOne(t, map[string]string{"method": "ip"}, text); err == nil ||
			!strings.Contains(err.Error(), "cannot hide .Payload.After.v: it is not an IP address") || got != text {
			t.Errorf("%v: %v %v", text, got, err)
		}
	}
	all, err := maskOne(t, map[string]string{"method": "ip", "ipv4.prefix": "0", "ipv6.prefix": "128"},
		[]any{"10.1.2.3", map[string]any{"a": "::1", "b": nil}})
	if diff := cmp.Diff([]any{"0.0.0.0", map[string]any{"a": "::1", "b": nil}}, all); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestMaskEmail(t *testing.T) {
	for _, c := range []struct{ keep, in, want string }{
		{"0", "ann@example.org", "***@example.org"},
		{"0", `"a@b"@example.org`, "***@example.org"},
		{"1", "ann@example.org", "a***@example.org"},
		{"2", "ann@example.org", "***@example.org"},
		{"2", "ännie@example.org", "än***@example.org"},
	} {
		for _, text := range []string{c.in, c.want} {
			got, err := maskOne(t, map[string]string{"method": "email", "local.keep": c.keep}, text)
			if err != nil || got != c.want {
				t.Errorf("%s: %v %v, want %s", text, got, err, c.want)
			}
		}
	}
	for _, text := range []string{"", "ann", "@example.org", "ann@", "Ann <ann@example.org>"} {
		if got, err := maskOne(t, map[string]string{"method": "email"}, text); err == nil || got != text {
			t.Errorf("%s: %v %v", text, got, err)
		}
	}
}

// The expected pseudonyms come from another implementation of HMAC-SHA-256.
func TestMaskPseudonyms(t *testing.T) {
	const whole = "170e4a0056397ea790f3acf51f15b8722c004b577c1e83b2b534f08f6fcb8546"
	for want, settings := range map[string]map[string]string{
		whole: {}, whole[:16]: {"length": "16"},
		"c4heuacwhf7kpehtvt2r6fnyoi": {"format": "base32", "length": "26"},
	} {
		settings["method"], settings["key"] = "hash", "a-secret"
		if got, err := maskOne(t, settings, "Ann"); got != want || err != nil {
			t.Errorf("%v: %v %v, want %s", settings, got, err, want)
		}
	}
	settings := map[string]string{"method": "hash", "key": "a-secret", "format": "digits"}
	number, err := maskOne(t, settings, int64(441234567))
	text, err2 := maskOne(t, settings, "441234567")
	if err != nil || err2 != nil || number != text || len(text.(string)) != 9 {
		t.Errorf("%v %v %v %v", number, err, text, err2)
	}
	long, err := maskOne(t, settings, strings.Repeat("7", 10_000))
	var counts [10]int
	for _, c := range long.(string) {
		counts[c-'0']++
	}
	for digit, n := range counts {
		if n < 850 || n > 1150 { // five standard deviations
			t.Errorf("digit %d is there %d times among 10000 (%v)", digit, n, err)
		}
	}
	settings["key"] = "another"
	if other, _ := maskOne(t, settings, "441234567"); other == text {
		t.Error("two keys make the same pseudonym")
	}
}

// A record is refused as it was: a replay must not make a pseudonym of a pseudonym.
func TestMaskLeavesRefusedRecordsAlone(t *testing.T) {
	p, err := fieldsConfigure("field.mask",
		map[string]string{"fields": ".Payload.After.v,.Key.x", "method": "hash", "key": "k"})
	if err != nil {
		t.Fatal(err)
	}
	in := record.Record{Key: record.Raw([]byte("raw")), After: record.Structured(map[string]any{"v": "Ann"})}
	b := sdk.NewProcessBatch(1, []record.Record{in.Clone()}, nil)
	if err := p.Process(context.Background(), b); err != nil || b.Fates()[0].Kind != sdk.Refused {
		t.Fatal(err, b.Fates())
	}
	if diff := cmp.Diff(in, *b.Record(0)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// maskOne masks the field v of a record and returns its value afterwards, with the error of a refused record.
func maskOne(t *testing.T, settings map[string]string, v any) (any, error) {
	t.Helper()
	settings["fields"] = ".Payload.After.v"
	p, err := fieldsConfigure("field.mask", settings)
	if err != nil {
		t.Fatal(err)
	}
	b := sdk.NewProcessBatch(1, []record.Record{{After: record.Structured(map[string]any{"v": v})}}, nil)
	if err := p.Process(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	if fates := b.Fates(); fates != nil {
		err = fates[0].Err
	}
	m, _ := b.Record(0).After.Structured()
	return m["v"], err
}

func TestSettingsThatCannotBe(t *testing.T) {
	for want, c := range map[string]struct {
		name     string
		settings map[string]string
	}{
		`"key": is required for method hash`: {"field.mask", map[string]string{"method": "hash"}},
		`"ipv4.prefix": must be at most 32`:  {"field.mask", map[string]string{"method": "ip", "ipv4.prefix": "33"}},
		`"ipv6.prefix": must be at most 128`: {"field.mask", map[string]string{"method": "ip", "ipv6.prefix": "129"}},
		`"patterns": "card" does not suit method ip, which takes ipv4 and ipv6`: {"field.mask",
			map[string]string{"method": "ip", "patterns": "ipv4,card"}},
		`"patterns": "ipv4" does not suit method email, which takes email`: {"field.mask",
			map[string]string{"method": "email", "patterns": "ipv4"}},
		`"length": must be 0 or 16 to 52 for format base32`: {"field.mask",
			map[string]string{"method": "hash", "key": "k", "format": "base32", "length": "53"}},
		`"length": must be 0 or 16 to 64 for format hex`: {"field.mask",
			map[string]string{"method": "hash", "key": "k", "length": "15"}},
		`"length": cannot be set with format digits`: {"field.mask",
			map[string]string{"method": "hash", "key": "k", "format": "digits", "length": "20"}},
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
