package template_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/template"
)

// at returns a record that was created at a time.
func at(t time.Time) *record.Record {
	return &record.Record{
		After: record.Structured(map[string]any{"empty": "", "at": "2025-02-03T23:30:00Z", "n": int64(7)}),
		Metadata: record.NewMetadata(map[string]string{record.KeyCreatedAt: strconv.FormatInt(t.UnixNano(), 10),
			"none": ""})}
}

func TestPaths(t *testing.T) {
	vienna, err := time.LoadLocation("Europe/Vienna")
	if err != nil {
		t.Fatal(err)
	}
	r := at(time.Date(2026, 1, 2, 23, 4, 5, 678_901_234, time.UTC))
	for text, want := range map[string]string{
		`{{ strftime "%Y/%m/%d/%H" }}`: "2026/01/03/00",
		`{{ strftime "%F %T.%L %f %y-%j %e %I %p %R ` +
			`%B %b %A %a" }}`: "2026-01-03 00:04:05.678 678901 26-003  3 12 AM 00:04 January Jan Saturday Sat",
		`{{ strftime "%G-%V-%u %s %z %Z %% x" }}`:          "2026-01-6 1767395045 +0100 CET % x",
		`{{ strftime "%H" .Payload.After.at }}`:            "00",
		`{{ strftime "%H" .Metadata.GetCreatedAt }}`:       "00",
		`{{ strftime (printf "%%%s" "d") }}`:               "03",
		`a{{ .Payload.After.empty }}/{{ .Metadata.none }}`: "anone/none",
		`{{ if true }}{{ .Payload.After.empty }}{{ end }}`: "none",
		`{{ .Payload.After.n }}{{ $x := "" }}{{ $x }}`:     "7none",
		`plain`: "plain",
	} {
		p, err := template.ParsePath(text, "none", vienna)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		for range 2 {
			if got, err := p.Append(&template.TimeLimit{}, nil, r); err != nil || string(got) != want {
				t.Errorf("%s: got %q, %v, want %q", text, got, err, want)
			}
		}
	}
}

// A record without the time at which it was created has the time at which it was read.
func TestTimesOfPaths(t *testing.T) {
	p, err := template.ParsePath(`{{ strftime "%s %L" }}`, "", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ created, read, want string }{
		{"1000000001", "5000000000", "1 000"},
		{"", "5002000000", "5 002"},
		{"x", "5000000000", "5 000"},
		{"1999000000", "", "1 999"},
		{"", "", ""},
	} {
		r := &record.Record{Metadata: record.NewMetadata(map[string]string{record.KeyCreatedAt: c.created,
			record.KeyReadAt: c.read})}
		got, err := p.Append(&template.TimeLimit{}, nil, r)
		if string(got) != c.want || (err == nil) != (c.want != "") ||
			err != nil && !strings.Contains(err.Error(), "the record has no time") {
			t.Errorf("%+v: got %q, %v", c, got, err)
		}
	}
}

func TestBadPaths(t *testing.T) {
	for text, want := range map[string]string{
		`{{ strftime "%Q" }}`:             "%Q is no directive",
		`{{ strftime "%D" }}`:             "%D is no directive",
		`{{ if true }}{{ strftime "%" }}`: "unexpected EOF",
		`{{ strftime "%" }}`:              "ends with %",
		`{{ strftime }}`:                  "strftime has 0 arguments, but takes at least 1",
	} {
		_, err := template.ParsePath(text, "", time.UTC)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	for text, want := range map[string]string{
		`{{ strftime "%H" .Payload.After.n }}`:     `"7" is no time`,
		`{{ strftime "%H" "a" "b" }}`:              "at most one time",
		`{{ strftime .Payload.After.at }}{{ .x }}`: "",
		`{{ .Payload.After.missing }}`:             "",
	} {
		p, err := template.ParsePath(text, "", time.UTC)
		if err == nil {
			_, err = p.Append(&template.TimeLimit{}, nil, at(time.Now()))
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	if _, err := template.Parse(`{{ strftime "%Y" }}`, template.Exact); err == nil {
		t.Error("a template that is no path has strftime")
	}
}

// FuzzStrftime checks that a format that is accepted makes the same text directly and by text/template.
func FuzzStrftime(f *testing.F) {
	f.Add("%Y/%m/%d", int64(1_767_395_045_678_901_234))
	f.Add("%G-%V %% %s %f", int64(-1))
	f.Add("%", int64(0))
	f.Fuzz(func(t *testing.T, format string, ns int64) {
		quoted := strconv.Quote(format)
		direct, err := template.ParsePath("{{ strftime "+quoted+" }}", "none", time.UTC)
		if err != nil {
			return
		}
		slow, err := template.ParsePath("{{ strftime (print "+quoted+") }}", "none", time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		r := at(time.Unix(0, ns))
		a, errA := direct.Append(&template.TimeLimit{}, nil, r)
		b, errB := slow.Append(&template.TimeLimit{}, nil, r)
		if string(a) != string(b) || (errA == nil) != (errB == nil) {
			t.Errorf("%q: %q, %v and %q, %v", format, a, errA, b, errB)
		}
	})
}
