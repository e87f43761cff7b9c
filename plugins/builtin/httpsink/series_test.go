package httpsink_test

import (
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/httpsink"
	"github.com/conduit-agent/conduit/plugins/record"
)

// TestTimes checks that records that were read together have different times in one series.
func TestTimes(t *testing.T) {
	s := httpsink.NewSeries(2, "streams", "streams.max")
	s.Begin(time.Unix(0, 50))
	a, _ := s.Use([]byte("a"))
	b, _ := s.Use([]byte("b"))
	for i, c := range []struct {
		in            *httpsink.Used
		created, read string
		want          int64
	}{
		{a, "", "10", 10}, {a, "", "10", 11}, {b, "", "10", 10}, {a, "", "11", 12}, {a, "", "20", 20}, {a, "5", "20", 5},
		{a, "5", "21", 5}, {a, "", "20", 21}, {a, "", "", 50}, {a, "", "", 51}, {a, "1970-01-01T00:00:00.000000007Z", "", 7},
		{b, "x", "x", 50},
	} {
		r := record.Record{Metadata: record.NewMetadata(map[string]string{record.KeyCreatedAt: c.created,
			record.KeyReadAt: c.read})}
		if got := s.Time(c.in, &r); got != c.want {
			t.Errorf("%d: %d, want %d", i, got, c.want)
		}
	}
}

// TestSeries checks that a bound counts the things in use, and forgets the others.
func TestSeries(t *testing.T) {
	s := httpsink.NewSeries(2, "streams", "streams.max")
	use := func(key, want string) {
		t.Helper()
		got, err := s.Use([]byte(key))
		if want == "" && (err != nil || got.Key != key) ||
			want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %+v, %v", key, got, err)
		}
	}
	begin := time.Unix(0, 0)
	s.Begin(begin)
	use("a", "")
	use("b", "")
	use("c", "another of the streams, and 2 are in use")
	s.Begin(begin.Add(time.Hour))
	use("a", "")
	use("c", "raise streams.max")
	s.Begin(begin.Add(time.Hour + 1))
	use("c", "") // instead of b
	use("a", "")
	use("b", "streams.max")
}
