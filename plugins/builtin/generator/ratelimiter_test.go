package generator_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

// countFor returns the number of records read within d, and calls each for every Read.
func countFor(t *testing.T, s sdk.Source, d time.Duration, each func(at time.Duration, n int)) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	start, total := time.Now(), 0
	for {
		records, err := s.Read(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			return total
		}
		if err != nil {
			t.Fatal(err)
		}
		total += len(records)
		if each != nil {
			each(time.Since(start), len(records))
		}
	}
}

func TestRate(t *testing.T) {
	tests := map[string]struct {
		setting, value string
		per            time.Duration
		min, max       int
	}{
		"1":           {"rate", "1", 100 * time.Second, 100, 100},
		"3":           {"rate", "3", 100 * time.Second, 300, 301},
		"0.1":         {"rate", "0.1", 100 * time.Second, 10, 10},
		"1000":        {"rate", "1000", 10 * time.Second, 9999, 10001},
		"100000":      {"rate", "100000", 3 * time.Second, 299000, 300001},
		"very slow":   {"rate", "1e-300", 1000 * time.Hour, 1, 1},
		"readTime 2s": {"readTime", "2s", 100 * time.Second, 50, 50},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, "", with(nil, tt.setting, tt.value))
				if got := countFor(t, s, tt.per, nil); got < tt.min || got > tt.max {
					t.Errorf("got %d records in %v, want %d to %d", got, tt.per, tt.min, tt.max)
				}
			})
		})
	}
}

func TestSlowRecordsComeOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, "", with(nil, "rate", "1"))
		i := 0
		countFor(t, s, 10*time.Second, func(at time.Duration, n int) {
			if late := at - time.Duration(i)*time.Second; n != 1 || late < 0 || late > 100*time.Millisecond {
				t.Errorf("got %d records at %v", n, at)
			}
			i++
		})
	})
}

func TestSlowSourcesWakeUpTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for i := range 100 {
			time.Sleep(time.Millisecond)
			s := open(t, "", with(nil, "rate", "1"))
			if countFor(t, s, 500*time.Microsecond, nil) != 1 { // the first record is due at once
				t.Fatalf("source %d has no first record", i)
			}
			if _, err := s.Read(t.Context()); err != nil {
				t.Fatal(err)
			}
			if time.Now().Nanosecond()%int(100*time.Millisecond) != 0 {
				t.Errorf("source %d woke up at %v", i, time.Now())
			}
		}
	})
}

func TestFastRecordsComeInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, "", with(nil, "rate", "100000"))
		reads := 0
		countFor(t, s, time.Second, func(time.Duration, int) { reads++ })
		if reads > 1100 {
			t.Errorf("got %d reads in a second", reads)
		}
	})
}

func TestHeldUpReaderGetsNoFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, "", with(nil, "rate", "100"))
		read(t, s, 1)
		time.Sleep(time.Hour)
		if got := countFor(t, s, time.Second, nil); got < 100 || got > 111 {
			t.Errorf("got %d records in the second after an hour, want about 100", got)
		}
	})
}

func TestBursts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, "", with(nil, "rate", "100", "burst.generateTime", "2s", "burst.sleepTime", "8s"))
		got := countFor(t, s, 30*time.Second, func(at time.Duration, n int) {
			if at%(10*time.Second) >= 2*time.Second {
				t.Errorf("got %d records at %v", n, at)
			}
		})
		if got < 595 || got > 605 {
			t.Errorf("got %d records in three bursts, want about 600", got)
		}
	})
}

func TestBurstsKeepTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, "", with(nil, "rate", "1", "burst.generateTime", "100ms", "burst.sleepTime", "100ms"))
		if got := countFor(t, s, 20*time.Second, nil); got > 20 {
			t.Errorf("got %d records in 20 s, want at most 20", got)
		}
	})
}

func BenchmarkGeneratorRead(b *testing.B) {
	for name, settings := range map[string]map[string]string{
		"structured": {"format.type": "structured", "format.options.id": "int", "format.options.name": "string"},
		"raw":        {"format.type": "raw", "format.options.id": "int", "format.options.name": "string"},
	} {
		b.Run(name, func(b *testing.B) {
			s := open(b, "", settings)
			b.ReportAllocs()
			n := 0
			for n < b.N {
				records, err := s.Read(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				n += len(records)
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s")
		})
	}
}
