package pg_test

import (
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/postgres/pg"
)

// TestTimesAsPackageTime compares what becomes of times, right and wrong ones, with what package time makes of them.
func TestTimesAsPackageTime(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"2026-01-02 03:04:05", "2026-01-02 03:04:05.1", "2026-01-02 03:04:05.000001", "2026-12-31 23:59:59.999999", "2024-02-29 00:00:00.12345", "0001-01-01 00:00:00",
		"2023-02-29 00:00:00", "2026-13-01 00:00:00", "2026-00-01 00:00:00", "2026-01-00 00:00:00", "2026-01-32 00:00:00", "2026-01-02 24:00:00", "2026-01-02 03:60:05", "2026-01-02 03:04:60",
		"infinity", "-infinity", "", "2026-01-02", "2026-01-02 03:04", "2026-01-02T03:04:05", "2026-01-02 03:04:05 BC", "12026-01-02 03:04:05", "2026-01-02 03:04:05,5", "2026-1x-02 03:04:05",
	} {
		var want any = text
		if parsed, err := time.Parse("2006-01-02 15:04:05.999999", text); err == nil && text != "2026-01-02 03:04:05,5" { // the server writes no comma
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
	if got, want := pg.Decode(pg.OIDTimestamptz, []byte("2026-01-02 03:04:05.5+01")), time.Date(2026, 1, 2, 2, 4, 5, 500_000_000, time.UTC); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}
