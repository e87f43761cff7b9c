package parse_test

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/plugins/syslog"
)

func TestMessages(t *testing.T) {
	for _, c := range []struct {
		name     string
		settings []string
		text     string
		want     map[string]any
	}{
		{"RFC 5424", nil, "<34>1 2026-10-11T22:14:15.003Z h su 7 ID47 [x a=\"\\]\\\"\"][x a=\"2\"] \xef\xbb\xbfé\r\n",
			map[string]any{"priority": int64(34), "facility": "auth", "severity": "crit",
				"timestamp": "2026-10-11T22:14:15.003Z", "hostname": "h", "appname": "su", "procid": "7", "msgid": "ID47",
				"structured_data": map[string]any{"x": map[string]any{"a": []any{`]"`, "2"}}}, "message": "é"}},
		{"nothing but the header", nil, "<0>1 - - - - - -",
			map[string]any{"priority": int64(0), "facility": "kern", "severity": "emerg", "message": ""}},
		{"bytes that are no text", nil, "<0>1 - - - - - - \xff",
			map[string]any{"priority": int64(0), "facility": "kern", "severity": "emerg", "message": []byte("\xff")}},
		{"RFC 3164", []string{"zone", "Europe/Zurich"}, "<13>Nov  7 03:04:05 h cron[9]: x",
			map[string]any{"priority": int64(13), "facility": "user", "severity": "notice", "hostname": "h",
				"timestamp": "2026-11-07T03:04:05+01:00", "appname": "cron", "procid": "9", "message": "x"}},
		{"of the last months", nil, "Jun  1 00:00:00 h x",
			map[string]any{"hostname": "h", "timestamp": "2026-06-01T00:00:00Z", "message": "x"}},
		{"of the next months", nil, "Jan  1 00:00:00 h x",
			map[string]any{"hostname": "h", "timestamp": "2027-01-01T00:00:00Z", "message": "x"}},
		{"of a leap year", nil, "Feb 29 00:00:00 h x",
			map[string]any{"hostname": "h", "timestamp": "2028-02-29T00:00:00Z", "message": "x"}},
		{"a priority alone", nil, "<13>x",
			map[string]any{"priority": int64(13), "facility": "user", "severity": "notice", "message": "x"}},
		{"RFC 3164 by setting", []string{"format", "rfc3164"}, "<13>1 x",
			map[string]any{"priority": int64(13), "facility": "user", "severity": "notice", "message": "1 x"}},
	} {
		settings := map[string]string{}
		for i := 0; i < len(c.settings); i += 2 {
			settings[c.settings[i]] = c.settings[i+1]
		}
		got, err := parseValue(t, "parse.syslog", settings, c.text)
		if diff := cmp.Diff(any(c.want), got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", c.name, err, diff)
		}
	}
}

func TestWrongMessages(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "RFC 3164",
		"x":                               `"x": it is not a message of RFC 3164: it has neither a priority nor a time`,
		"<192>x":                          "RFC 3164",
		"<-1>x":                           "RFC 3164",
		"Feb 30 00:00:00 h x":             "RFC 3164",
		"<13>1 x":                         "it is not a message of RFC 5424",
		"<13>1 2026 h a p i - x":          "RFC 5424",
		"<13>1 - - - - - [x] [y":          "",
		"<13>1 - - - - - [x][y":           "RFC 5424",
		`<13>1 - - - - - [x a="1`:         "RFC 5424",
		`<13>1 - - - - - [x a=1]`:         "RFC 5424",
		`<13>1 - - - - - [x a="1"]x`:      "RFC 5424",
		"<13>1 - - - - - x":               "RFC 5424",
		"<13>1 -  - - - - x":              "RFC 5424",
		strings.Repeat("<13>1 ", 100_000): "RFC 5424",
	} {
		got, err := parseValue(t, "parse.syslog", nil, text)
		if want == "" && err == nil {
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 200 {
			t.Errorf("%.60q: %v, the error is %v, want %s", text, got, err, want)
		}
	}
	if got, err := parseValue(t, "parse.syslog", map[string]string{"format": "rfc5424"}, "<13>x"); err == nil {
		t.Errorf("a message of RFC 3164 becomes %v", got)
	}
	wantRefused(t, "parse.syslog", map[string]map[string]string{"zone": {"zone": "Nowhere"}, "format": {"format": "x"}})
}

// A message is given up before its structured data takes more memory than allowed.
func TestMessageEndsAtTheLimit(t *testing.T) {
	full, left := errors.New("full"), 1<<20
	p := syslog.Parser{Take: func(n int) error {
		if left -= n; left < 0 {
			return full
		}
		return nil
	}}
	_, err := p.Parse5424([]byte("<1>1 - - - - - [a" + strings.Repeat(` a=""`, 50_000) + "]"))
	if !errors.Is(err, full) || left < -1000 {
		t.Errorf("the error is %v, with %d bytes left", err, left)
	}
}

// FuzzSyslog checks that a message contains all parsed parts, and that a written message is parsed again.
func FuzzSyslog(f *testing.F) {
	for _, text := range []string{"<13>1 - h a p i [x y=\"\\\\z\"] text", "<13>Nov  7 03:04:05 h a[p]: x", "<1>x",
		"2026-11-22T08:00:00Z h a: x", "<13>1 - - - - - [a][b c=\"\xff\"]", "2026-11-22T08:00:00Z h\xb8 x"} {
		f.Add(text)
	}
	header := regexp.MustCompile(`^[!-~]{0,48}$`)
	f.Fuzz(func(t *testing.T, text string) {
		v, err := parseValue(t, "parse.syslog", nil, text)
		if err != nil {
			return
		}
		made := v.(map[string]any)
		message, isText := made["message"].(string)
		if !isText {
			message = string(made["message"].([]byte))
		}
		trimmed := strings.TrimRight(text, "\r\n\x00")
		if !strings.HasSuffix(trimmed, message) {
			t.Fatalf("%q has the text %q, which is not its end", text, message)
		}
		m := syslog.Message{Priority: syslog.DefaultPriority, Text: []byte(message)}
		for name, part := range map[string]*string{"hostname": &m.Host, "appname": &m.App, "procid": &m.Process,
			"msgid": &m.ID} {
			*part, _ = made[name].(string)
			if !header.MatchString(*part) || *part == "-" {
				return
			}
			if utf8.ValidString(text) && !strings.Contains(text, *part) {
				t.Fatalf("%q has the %s %q", text, name, *part)
			}
		}
		again, err := parseValue(t, "parse.syslog", nil, m.Append(nil, "rfc5424"))
		if err != nil {
			t.Fatalf("%q becomes %v", text, err)
		}
		result := again.(map[string]any)
		for _, name := range []string{"hostname", "appname", "procid", "msgid"} {
			if diff := cmp.Diff(made[name], result[name]); diff != "" {
				t.Fatalf("%q: %s\n%s", text, name, diff)
			}
		}
		want := bytes.TrimPrefix([]byte(message), []byte("\xef\xbb\xbf"))
		if got, ok := result["message"].(string); ok && got != string(want) {
			t.Fatalf("%q has the text %q, and then %q", text, want, got)
		}
	})
}

func BenchmarkSyslog(b *testing.B) {
	const text = `<165>1 2024-01-02T03:04:05.678Z web1 shop 42 order [order@32473 id="17" paid="1"] one order`
	benchmark(b, "parse.syslog", nil, text, func() {
		p := syslog.Parser{}
		if _, err := p.Parse5424([]byte(text)); err != nil {
			b.Fatal(err)
		}
	})
}
