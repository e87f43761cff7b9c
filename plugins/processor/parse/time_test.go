package parse_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
)

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic(err)
	}
	return t.UTC()
}

func TestTimes(t *testing.T) {
	for _, c := range []struct {
		formats string
		in      any
		want    string
		more    []string
	}{
		{"", "2024-01-02T03:04:05.6+01:00", "2024-01-02T02:04:05.6Z", nil},
		{"02/Jan/2006:15:04:05 -0700", "10/Oct/2000:13:55:36 -0700", "2000-10-10T20:55:36Z", nil},
		{"%d/%b/%Y:%T %z", "10/Oct/2000:13:55:36 -0700", "2000-10-10T20:55:36Z", nil},
		{"rfc1123 | unix", "1700000000", "2023-11-14T22:13:20Z", nil},
		{"unix", 1700000000.25, "2023-11-14T22:13:20.25Z", nil},
		{"unix", json.Number("-0.5"), "1969-12-31T23:59:59.5Z", nil},
		{"unix_ms", int64(1700000000123), "2023-11-14T22:13:20.123Z", nil},
		{"unix_us", "1700000000123456", "2023-11-14T22:13:20.123456Z", nil},
		{"unix_ns", "1700000000123456789.9", "2023-11-14T22:13:20.123456789Z", nil},
		{"rfc1123", "Tue, 02 Jan 2024 03:04:05 GMT", "2024-01-02T03:04:05Z", nil},
		{"rfc1123", "Tue, 02 Jan 2024 03:04:05 CET", "2024-01-02T02:04:05Z", []string{"zone", "Europe/Zurich"}},
		{"%F %R", "2024-07-02 03:04", "2024-07-02T01:04:00Z", []string{"zone", "Europe/Zurich"}},
		{"%A, %e %B %y %I:%M:%S %p", "Tuesday,  2 january 24 12:04:05 am", "2024-01-02T00:04:05Z", nil},
		{"%a %d %h %l%p %y", "Tue 02 JAN 3PM 69", "1969-01-02T15:00:00Z", nil},
		{"%Y%j %%%H", "2024366 %23", "2024-12-31T23:00:00Z", nil},
		{"%s.%L", "1700000000.250", "2023-11-14T22:13:20.25Z", nil},
		{"%D%t%k:%M:%S.%f%Z", "01/02/24 3:04:05.5UTC", "2024-01-02T03:04:05.5Z", nil},
		{"%Y-%m-%dT%H:%M:%S.%N%z", "2024-01-02T03:04:05.123456789Z", "2024-01-02T03:04:05.123456789Z", nil},
		{"Jan _2 15:04:05", "Nov 28 10:00:00", "2025-11-28T10:00:00Z", nil}, // the clock of the tests stands
		{"%b %e %T", "Nov 28 09:59:59", "2026-11-28T09:59:59Z", nil},
	} {
		settings := with(nil, c.more...)
		if c.formats != "" {
			settings["formats"] = c.formats
		}
		got, err := parseValue(t, "parse.time", settings, c.in)
		if made, ok := got.(time.Time); err != nil || !ok || !made.Equal(at(c.want)) || made.Location() != time.UTC {
			t.Errorf("%s %v: %v (%v), want %s", c.formats, c.in, got, err, c.want)
		}
	}
	for formats, bad := range map[string][]any{
		"rfc3339":                       {"2024-01-02", "0000-01-01T00:00:00Z", true, "10000-01-01T00:00:00Z"},
		"rfc1123":                       {"Tue, 02 Jan 2024 03:04:05 EST"},
		"unix":                          {"1e9", ".5", "5.", "-", "253402300800", "99999999999999999999", "1.x"},
		"%Y-%m-%d":                      {"2024-02-30", "2024-13-01", "2024-01-0", "2024-01-011", "2024-01", "x"},
		"%Y %j":                         {"2023 366", "2023 0"},
		"%b %a %p %z %Z %H:%M:%S %I %f": {"", " ", "x", "Jan", "Jan Mon xm", "Jan Mon am +1"},
		"%I%p":                          {"13pm", "0am", "1x"},
		"%H:%M:%S":                      {"24:00:00", "00:60:00", "00:00:60"},
		"%s":                            {"x", "-"},
	} {
		for _, v := range bad {
			got, err := parseValue(t, "parse.time", map[string]string{"formats": formats}, v)
			if err == nil && v != "" && v != " " {
				t.Errorf("%s %v is %v, want an error", formats, v, got)
			}
		}
	}
	wantRefused(t, "parse.time", map[string]map[string]string{
		"formats": {"field": ".Payload.After.v", "formats": "rfc3339 | %Q"},
		"zone":    {"field": ".Payload.After.v", "zone": "Mars/Olympus"},
		"target":  {"target": ".Metadata.v"},
		"field":   {"output": "unix"},
	})
	wantRefused(t, "parse.time", map[string]map[string]string{"formats": {"field": ".Key.v", "formats": "epoch"}})
}

// The error for a single format has the reason.
func TestCausesOfTimes(t *testing.T) {
	for _, c := range [][3]string{
		{"02/Jan/2006", "31/Feb/2026", `"31/Feb/2026": it does not have the format 02/Jan/2006: day out of range`},
		{"rfc3339", "today", `"today": it does not have the format rfc3339: "today" cannot be read as 2006`},
		{"rfc1123", "Tue, 02 Jan 2024 03:04:05 EST", `: the abbreviation of its time zone is unknown`},
		{"unix", "x", `"x": it does not have the format unix`},
		{"rfc3339 | unix", "x", `"x": it has none of the formats`},
	} {
		_, err := parseValue(t, "parse.time", map[string]string{"formats": c[0]}, c[1])
		if err == nil || !strings.HasSuffix(err.Error(), c[2]) {
			t.Errorf("%s: %v, want %s", c[0], err, c[2])
		}
	}
}

func TestOutputOfTimes(t *testing.T) {
	for output, want := range map[string]any{"rfc3339": "2024-01-02T03:04:05.678+01:00", "unix": int64(1704161045),
		"unix_ms": int64(1704161045678), "unix_us": int64(1704161045678000), "unix_ns": int64(1704161045678000000)} {
		got, err := parseValue(t, "parse.time", map[string]string{"output": output}, "2024-01-02T03:04:05.678+01:00")
		if err != nil || got != want {
			t.Errorf("%s is %v (%v), want %v", output, got, err, want)
		}
		settings := map[string]string{"output": output, "field": ".Key.v", "target": ".Metadata.m"}
		r, err := process(t, open(t, "parse.time", settings), record.Record{
			Key: record.Structured(map[string]any{"v": "2024-01-02T03:04:05.678+01:00"})})
		text, _ := want.(string)
		if n, ok := want.(int64); ok {
			text = strconv.FormatInt(n, 10)
		}
		if m := r.Metadata.Get("m"); err != nil || m != text {
			t.Errorf("%s in the metadata is %q (%v), want %q", output, m, err, text)
		}
	}
	settings := map[string]string{"output": "unix_ns"}
	if got, err := parseValue(t, "parse.time", settings, "1500-01-01T00:00:00Z"); err == nil {
		t.Errorf("the nanoseconds of the year 1500 are %v, want an error", got)
	}
}

// FuzzTime formats times and reads them again, and reads any text.
func FuzzTime(f *testing.F) {
	f.Add(int64(1700000000), 123456789, "Tue, 02 Jan 2024 03:04:05 GMT")
	f.Add(int64(-62135596800), 0, "253402300799.9")
	f.Add(int64(253402300799), 999999999, "%")
	f.Fuzz(func(t *testing.T, seconds int64, nanoseconds int, text string) {
		all := "rfc3339|rfc1123|unix|%s|%A %B %e %I:%M:%S.%f %p %y %z|%j %Y|Jan _2 15:04:05"
		if got, err := parseValue(t, "parse.time", map[string]string{"formats": all}, text); err == nil && got != nil {
			if _, err := got.(time.Time).MarshalJSON(); err != nil {
				t.Errorf("%q is %v: %v", text, got, err)
			}
		}
		want := time.Unix(seconds, int64(uint(nanoseconds)%1e9)).UTC()
		if want.Year() < 1 || want.Year() > 9999 || seconds < 0 {
			return
		}
		for format, text := range map[string]string{
			"%Y-%m-%d %H:%M:%S.%N": want.Format("2006-01-02 15:04:05.000000000"),
			"%j %Y %I:%M:%S.%f %p": want.Format("002 2006 03:04:05.000000000 PM"),
			"unix":                 want.Format("") + strconv.FormatInt(want.Unix(), 10) + want.Format(".000000000"),
		} {
			got, err := parseValue(t, "parse.time", map[string]string{"formats": format}, text)
			if made, ok := got.(time.Time); err != nil || !ok || !made.Equal(want) {
				t.Errorf("%s %s is %v (%v), want %v", format, text, got, err, want)
			}
		}
	})
}

func BenchmarkTime(b *testing.B) {
	const text = "2024-01-02T03:04:05.678Z"
	library := func() {
		if _, err := time.Parse(time.RFC3339Nano, text); err != nil {
			b.Fatal(err)
		}
	}
	settings := map[string]string{"output": "rfc3339"}
	benchmark(b, "parse.time", settings, text, library)
	b.Run("strptime", func(b *testing.B) {
		benchmark(b, "parse.time", with(settings, "formats", "%Y-%m-%dT%H:%M:%S.%f%z"), text, library)
	})
}
