package pg_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pg"
	"github.com/conduit-agent/conduit/plugins/record"
)

// TestTimesAsPackageTime compares parsed times, valid and invalid, with the results of package time.
func TestTimesAsPackageTime(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"2026-01-02 03:04:05", "2026-01-02 03:04:05.1", "2026-01-02 03:04:05.000001", "2026-12-31 23:59:59.999999",
		"2024-02-29 00:00:00.12345", "0001-01-01 00:00:00",
		"2023-02-29 00:00:00", "2026-13-01 00:00:00", "2026-00-01 00:00:00", "2026-01-00 00:00:00",
		"2026-01-32 00:00:00", "2026-01-02 24:00:00", "2026-01-02 03:60:05", "2026-01-02 03:04:60",
		"infinity", "-infinity", "", "2026-01-02", "2026-01-02 03:04", "2026-01-02T03:04:05", "2026-01-02 03:04:05 BC",
		"12026-01-02 03:04:05", "2026-01-02 03:04:05,5", "2026-1x-02 03:04:05",
	} {
		var want any = text
		// Package time accepts a comma before the fraction, which the server never writes.
		if parsed, err := time.Parse("2006-01-02 15:04:05.999999", text); err == nil &&
			text != "2026-01-02 03:04:05,5" {
			want = parsed
		}
		if got := pg.Decode(pg.OIDTimestamp, []byte(text)); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
		if _, ok := want.(time.Time); !ok {
			want = text + "+00"
		}
		if got := pg.Decode(pg.OIDTimestamptz, []byte(text+"+00")); got != want && text != "2026-01-02 03:04:05,5" {
			t.Errorf("%q+00: got %v, want %v", text, got, want)
		}
	}
	if got, want := pg.Decode(pg.OIDTimestamptz, []byte("2026-01-02 03:04:05.5+01")), time.Date(2026, 1, 2, 2, 4, 5,
		500_000_000, time.UTC); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestBadValues checks that damaged values, and values that a type cannot represent in records, stay text.
func TestBadValues(t *testing.T) {
	for _, oid := range []uint32{pg.OIDBool, pg.OIDBytea, pg.OIDInt8, pg.OIDInt2, pg.OIDInt4, pg.OIDOID, pg.OIDJSON,
		pg.OIDJSONB, pg.OIDFloat4, pg.OIDFloat8, pg.OIDDate,
		pg.OIDTimestamp, pg.OIDTimestamptz, 1700, 25, 600_000} {
		for _, text := range []string{"", "NaN", "infinity", "-infinity", "0044-03-15 BC", "0044-03-15 12:00:00 BC",
			"0044-03-15 12:00:00+00 BC", "294276-12-31 23:59:59.999999", "5874897-12-31",
			"294276-12-31 23:59:59.999999+00", "2026-13-45", "99999999999999999999999999", "1e400", "\\xzz", "\xff\x00",
			"{", "2026-01-01 00:00:00+00:00:01"} {
			r := record.Record{After: record.Structured(map[string]any{"v": pg.Decode(oid, []byte(text))})}
			if _, err := record.AppendJSON(nil, &r); err != nil {
				t.Errorf("%d %q: %v", oid, text, err)
			}
			if _, err := record.AppendWire(nil, &r); err != nil {
				t.Errorf("%d %q: %v", oid, text, err)
			}
		}
	}
	for text, oid := range map[string]uint32{"infinity": pg.OIDTimestamptz, "-infinity": pg.OIDTimestamp,
		"0044-03-15 BC": pg.OIDDate, "5874897-12-31": pg.OIDDate, "NaN": 1700} {
		if got := pg.Decode(oid, []byte(text)); got != text {
			t.Errorf("%s is %v", text, got)
		}
	}
}

// TestJSON decodes JSON with all digits of the numbers.
func TestJSON(t *testing.T) {
	for text, want := range map[string]any{
		`{"a": [1, 12345678901234567890.12, null], "b": "x"}`: map[string]any{"a": []any{int64(1),
			json.Number("12345678901234567890.12"), nil},
			"b": "x"},
		`[{"a": 1.50}]`: []any{map[string]any{"a": 1.5}}, ` {}`: map[string]any{},
		"5": int64(5), "-1.5": -1.5, "true": true, "false": false,
		"18446744073709551615": json.Number("18446744073709551615"),
		`"x"`:                  `"x"`, `"5"`: `"5"`, "null": "null", "": "", "{": "{", `1,"v":2`: `1,"v":2`,
	} {
		for _, oid := range []uint32{pg.OIDJSON, pg.OIDJSONB} {
			if got := pg.Decode(oid, []byte(text)); !cmp.Equal(got, want) {
				t.Errorf("%s: got %#v, want %#v", text, got, want)
			}
		}
	}
}
