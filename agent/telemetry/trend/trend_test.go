package trend_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/agent/telemetry/trend"
	"github.com/conduit-agent/conduit/spec"
)

// show returns the values of a series, "-" for an unknown one, without the unknown ones before the first that is known.
func show(values []*float64) string {
	var words []string
	for _, v := range values {
		switch {
		case v != nil:
			words = append(words, fmt.Sprintf("%.4g", *v))
		case len(words) > 0:
			words = append(words, "-")
		}
	}
	return strings.Join(words, " ")
}

// second is a sample of 10 seconds with n records for each second.
func second(n float64) *trend.Sample {
	return &trend.Sample{Seconds: 10, Records: 10 * n, Bytes: 1000 * n, Settled: 10 * n, Transit: n, Lag: n / 4,
		Behind: trend.Unknown, Destinations: []trend.Destination{{ID: "p:out", Records: 5 * n}}}
}

// follow adds a sample with each of these rates after 10 seconds.
func follow(s *trend.Store, id string, rates ...float64) {
	for _, n := range rates {
		time.Sleep(trend.Step)
		s.Add(id, time.Now(), second(n))
	}
}

func TestTrendsInSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &trend.Store{}
		time.Sleep(300 * time.Millisecond) // samples come a little after the end of a step
		follow(s, "p", 1, 2, 4)
		refusing := second(8)
		refusing.Refused, refusing.Behind, refusing.Settled = 3, 700, 0
		time.Sleep(trend.Step)
		s.Add("p", time.Now(), refusing)
		got := s.Get("p", spec.Last15Minutes)
		for _, c := range []struct{ what, got, want string }{
			{"records", show(got.Records), "1 2 4 8"},
			{"bytes", show(got.Bytes), "100 200 400 800"},
			{"refused", show(got.Refused), "0 0 0 3"},
			{"latency", show(got.Latency), "0.1001 0.1001 0.1001 -"},
			{"lag", show(got.Lag), "0.25 0.5 1 2"},
			{"behind", show(got.Behind), "700"},
			{"delivered", show(got.Destinations["p:out"]), "0.5 1 2 4"},
		} {
			if c.got != c.want {
				t.Errorf("%s: %q, want %q", c.what, c.got, c.want)
			}
		}
		if got.Step != 10 || len(got.Records) != 90 || time.Since(got.From) > 16*time.Minute ||
			time.Since(got.From) < 15*time.Minute {
			t.Errorf("steps of %d seconds, %d of them, from %v", got.Step, len(got.Records), got.From)
		}
		follow(s, "p", 8, 8, 8) // into the next minute
		hour, day := s.Get("p", spec.LastHour), s.Get("p", spec.LastDay)
		if show(hour.Records) != "5.172 8" || show(hour.Refused) != "3 0" || show(hour.Lag) != "2 2" {
			t.Errorf("minutes are %q, refused %q, lag %q", show(hour.Records), show(hour.Refused), show(hour.Lag))
		}
		if show(day.Records) != "5.571" || len(day.Records) != 144 || day.Step != 600 {
			t.Errorf("the day is %q, with %d steps of %d seconds", show(day.Records), len(day.Records), day.Step)
		}
		if s.Get("p", "2h") != nil || show(s.Get("other", spec.LastHour).Records) != "" {
			t.Error("there is an unknown window, or an unknown pipeline has values")
		}
	})
}

// A time in which the pipeline did not run is unknown, old values make room, and a clock that is set back leaves no
// values in the future.
func TestTrendsWithGaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &trend.Store{}
		follow(s, "p", 1, 2)
		time.Sleep(30 * time.Second)
		follow(s, "p", 3, 4)
		if got := show(s.Get("p", spec.Last15Minutes).Records); got != "1 2 - - - 3 4" {
			t.Errorf("with a gap it is %q", got)
		}
		s.Add("p", time.Now().Add(-20*time.Second), second(9))
		time.Sleep(10 * time.Second)
		if got := strings.TrimRight(show(s.Get("p", spec.Last15Minutes).Records), " -"); got != "1 2 - - 9" {
			t.Errorf("with a clock that was set back it is %q", got)
		}
		time.Sleep(20 * time.Minute)
		if got := show(s.Get("p", spec.Last15Minutes).Records); got != "" {
			t.Errorf("after 20 minutes it is %q", got)
		}
		follow(s, "p", 7)
		if got := show(s.Get("p", spec.Last15Minutes).Records); got != "7" {
			t.Errorf("after a long gap it is %q", got)
		}
		for range 300 {
			follow(s, "p", 5)
		}
		if got := show(s.Get("p", spec.Last15Minutes).Records); got != strings.TrimSpace(strings.Repeat("5 ", 90)) {
			t.Errorf("after 50 minutes it is %q", got)
		}
	})
}

// Destinations keep their values when others come and go. Of many, eight have values.
func TestTrendsOfDestinations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &trend.Store{}
		add := func(ids ...string) {
			time.Sleep(trend.Step)
			m := second(1)
			m.Destinations = nil
			for i, id := range ids {
				m.Destinations = append(m.Destinations, trend.Destination{ID: id, Records: float64(10 * (i + 1))})
			}
			s.Add("p", time.Now(), m)
		}
		add("a")
		add("a")
		add("b", "a")
		add("b")
		got := s.Get("p", spec.Last15Minutes).Destinations
		if len(got) != 2 || show(got["a"]) != "1 1 2 -" || show(got["b"]) != "1 1" {
			t.Errorf("a is %q, b is %q", show(got["a"]), show(got["b"]))
		}
		add("c", "d", "e", "f", "g", "h", "i", "j", "k")
		got = s.Get("p", spec.Last15Minutes).Destinations
		if len(got) != 8 || got["k"] != nil || got["a"] != nil || show(got["j"]) != "8" {
			t.Errorf("%d have values, j %q", len(got), show(got["j"]))
		}
		if got := s.Get("p", spec.LastDay); show(got.Records) != "1" || show(got.Destinations["c"]) != "0.2" {
			t.Errorf("the day is %q, of c %q", show(got.Records), show(got.Destinations["c"]))
		}
	})
}

// stored returns a store in dir, with the values in its file of the pipelines to keep, and the log.
func stored(t *testing.T, dir string, keep ...string) (*trend.Store, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	s := &trend.Store{Path: filepath.Join(dir, "trends"), Log: slog.New(slog.NewTextHandler(&log, nil))}
	if err := s.Load(func(id string) bool { return strings.Contains(strings.Join(keep, " "), id) }); err != nil {
		t.Fatal(err)
	}
	return s, &log
}

// run runs a store while during runs.
func run(t *testing.T, s *trend.Store, during func()) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	during()
	end()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

func TestTrendsSurviveARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s, log := stored(t, dir)
		run(t, s, func() {
			follow(s, "p", 1, 2, 3)
			s.Add("gone", time.Now(), second(1))
			s.Add("deleted", time.Now(), second(1))
			s.Forget("deleted")
		})
		time.Sleep(20 * time.Second)
		s, _ = stored(t, dir, "p", "deleted")
		follow(s, "p", 4)
		if got := show(s.Get("p", spec.Last15Minutes).Records); got != "1 2 3 - - 4" {
			t.Errorf("the quarter of an hour is %q", got)
		}
		// The minute has the measurements from before the restart and after it.
		if got := show(s.Get("p", spec.LastHour).Records); got != "2.5" {
			t.Errorf("the hour is %q", got)
		}
		for _, id := range []string{"gone", "deleted"} {
			if got := show(s.Get(id, spec.LastHour).Records); got != "" {
				t.Errorf("the pipeline %s has %q", id, got)
			}
		}
		if log.Len() > 0 {
			t.Errorf("logged: %s", log)
		}
	})
}

// The file is written every ten minutes as long as records pass, and a kill loses at most that. Idle pipelines write
// nothing, to spare flash memory.
func TestTrendsAreSavedRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s, _ := stored(t, dir)
		written := func() bool {
			synctest.Wait()
			return os.Remove(s.Path) == nil
		}
		run(t, s, func() {
			writes := 0
			for range 3 * 60 {
				follow(s, "p", 1)
				if written() {
					writes++
				}
			}
			if writes != 3 {
				t.Errorf("%d writes in 30 minutes", writes)
			}
			time.Sleep(11 * time.Minute)
			written()
			for range 6 * 60 {
				time.Sleep(trend.Step)
				s.Add("p", time.Now(), &trend.Sample{Seconds: 10, Behind: 7})
			}
			if written() {
				t.Error("it was written for an idle pipeline")
			}
		})
		if !written() {
			t.Error("the time in which it was idle was not written at the end")
		}
	})
}

func TestADamagedFileIsNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s, _ := stored(t, dir)
		run(t, s, func() { follow(s, "p", 1, 2, 3) })
		good, err := os.ReadFile(s.Path)
		if err != nil {
			t.Fatal(err)
		}
		for _, damaged := range [][]byte{{}, good[:len(good)/2], append([]byte("x"), good...),
			append(bytes.Clone(good[:len(good)-8]), "12345678"...)} {
			if err := os.WriteFile(s.Path, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			again := &trend.Store{Path: s.Path}
			if err := again.Load(func(string) bool { return true }); err == nil {
				t.Error("a damaged file was read")
			}
			if got := show(again.Get("p", spec.Last15Minutes).Records); got != "" {
				t.Errorf("of a damaged file there is %q", got)
			}
		}
	})
}

// A failed write is logged and tried again.
func TestTrendsAreSavedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s, log := stored(t, filepath.Join(dir, "later"))
		run(t, s, func() {
			follow(s, "p", 1)
			time.Sleep(11 * time.Minute)
			if err := os.Mkdir(filepath.Join(dir, "later"), 0o700); err != nil {
				t.Error(err)
			}
		})
		if !strings.Contains(log.String(), "cannot save") {
			t.Errorf("logged: %s", log)
		}
		if _, err := os.Stat(s.Path); err != nil {
			t.Error(err)
		}
	})
}

// The values of a pipeline with one destination take less than five kilobytes, and their rounding is small.
func TestTrendsAreSmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 200
		s, _ := stored(t, t.TempDir())
		heap := func() uint64 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		before := heap()
		for step := range 62 { // all windows have rows
			time.Sleep(trend.Step)
			for i := range n {
				s.Add(fmt.Sprint("p", i), time.Now(), second(float64(1000+i*step)))
			}
		}
		each := (heap() - before) / n
		for i := range n {
			got := s.Get(fmt.Sprint("p", i), spec.Last15Minutes).Records
			for j, v := range got[len(got)-62:] {
				if want := float64(1000 + i*j); v != nil && math.Abs(*v-want) > want*0.002 {
					t.Fatalf("%v is kept as %v", want, *v)
				}
			}
		}
		run(t, s, func() {})
		info, err := os.Stat(s.Path)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d bytes of memory and %d bytes of the file for a pipeline", each, info.Size()/n)
		if each > 6000 || info.Size()/n > 6000 {
			t.Errorf("%d bytes of memory, %d bytes of the file for a pipeline", each, info.Size()/n)
		}
	})
}

// BenchmarkSave writes the values of a thousand pipelines, as is done every ten minutes.
func BenchmarkSave(b *testing.B) {
	s := &trend.Store{Path: filepath.Join(b.TempDir(), "trends")}
	now := time.Now()
	for step := range 9000 { // more than a day: all windows are full
		now = now.Add(trend.Step)
		s.Add("p", now, second(float64(step*7919%1009)))
	}
	s.Copy("p", 1000)
	for b.Loop() {
		if err := s.Save(); err != nil {
			b.Fatal(err)
		}
	}
	if info, err := os.Stat(s.Path); err == nil {
		b.ReportMetric(float64(info.Size()), "bytes")
	}
}
