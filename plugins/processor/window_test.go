package processor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/conduit-agent/conduit/plugins/processor/window"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

type tester interface {
	Helper()
	Fatal(...any)
}

func windowConfigure(settings map[string]string) (sdk.Processor, error) {
	p := window.Plugins()[0].New()
	return p, p.Configure(context.Background(), p.Parameters().ApplyDefaults(settings))
}

func windowOpen(t tester, settings map[string]string) sdk.Processor {
	t.Helper()
	p, err := windowConfigure(settings)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// results are the emitted payloads, and the number of records that they settle.
type results struct {
	after   []map[string]any
	settled []sdk.Held
	refused []string
}

func windowProcess(t tester, p sdk.Processor, token any, objects ...map[string]any) (out results) {
	t.Helper()
	records := make([]record.Record, len(objects))
	for i, m := range objects {
		records[i] = record.Record{Position: fmt.Append(nil, i), After: record.Structured(m)}
	}
	b := sdk.NewProcessBatch(token, records, nil)
	if err := p.Process(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	for _, e := range b.Emitted() {
		for _, r := range e.Records {
			m, _ := r.After.Structured()
			m["start"] = r.Metadata.Get("window.start")
			out.after = append(out.after, m)
		}
		out.settled = append(out.settled, e.Settles...)
	}
	for _, f := range b.Fates() {
		if f.Kind == sdk.Refused {
			out.refused = append(out.refused, f.Err.Error())
		}
	}
	return out
}

func object(pairs ...any) map[string]any {
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	return m
}

func TestTumblingWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the virtual clock begins at 2000-01-01
		p := windowOpen(t, map[string]string{
			"key": ".Payload.After.k", "window.size": "1m",
			"fields.n": "count", "fields.amounts": "count(.Payload.After.a)", "fields.sum": "sum(.Payload.After.a)",
			"fields.min": "min(.Payload.After.a)",
			"fields.max": "max(.Payload.After.a)", "fields.first": "first(.Payload.After.a)",
			"fields.last": "last(.Payload.After.a)",
		})
		windowProcess(t, p, 1, object("k", "x", "a", int64(3)), object("k", "y", "a", 0.5),
			object("k", "x", "a", int64(1)))
		time.Sleep(30 * time.Second)
		out := windowProcess(t, p, 2, object("k", "x"), object("k", "y", "a", int64(2)))
		if len(out.after) > 0 {
			t.Fatalf("in the middle of the window: %v", out.after)
		}
		deadline := p.(sdk.TimedProcessor).Deadline()
		if d := time.Until(deadline); d != 30*time.Second {
			t.Errorf("the window ends in %s", d)
		}
		time.Sleep(time.Until(deadline))
		out = windowProcess(t, p, nil)
		want := []map[string]any{
			object("k", "x", "n", int64(3), "amounts", int64(2), "sum", int64(4), "min", int64(1), "max", int64(3),
				"first", int64(3), "last", int64(1), "start", "2000-01-01T00:00:00Z"),
			object("k", "y", "n", int64(2), "amounts", int64(2), "sum", 2.5, "min", 0.5, "max", int64(2), "first", 0.5,
				"last", int64(2), "start", "2000-01-01T00:00:00Z"),
		}
		if diff := cmp.Diff(want, out.after); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if len(out.settled) != 5 || !p.(sdk.TimedProcessor).Deadline().IsZero() {
			t.Errorf("settled %v, next deadline %v", out.settled, p.(sdk.TimedProcessor).Deadline())
		}
	})
}

// Numbers that a float64 would change are added and compared with all digits.
func TestWindowOfNumbersWithAllDigits(t *testing.T) {
	const a, b = json.Number("12345678901234567890.12"), json.Number("12345678901234567890.13")
	for _, test := range []struct {
		values        []any
		sum, min, max any
	}{
		{[]any{a, b}, json.Number("24691357802469135780.25"), a, b},
		{[]any{b, a, int64(1), 0.5}, json.Number("24691357802469135781.75"), 0.5, b},
		{[]any{a, json.Number("-12345678901234567890.12")}, 0.0, json.Number("-12345678901234567890.12"), a},
		{[]any{json.Number("1e300"), 1.5}, json.Number("1" + strings.Repeat("0", 299) + "1.5"), 1.5,
			json.Number("1e300")},
		{[]any{a, math.Inf(1)}, math.Inf(1), a, math.Inf(1)},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := windowOpen(t,
				map[string]string{"window.size": "1m", "fields.sum": "sum(.Payload.After.a)",
					"fields.min": "min(.Payload.After.a)", "fields.max": "max(.Payload.After.a)"})
			for i, v := range test.values {
				windowProcess(t, p, i, object("a", v))
			}
			time.Sleep(time.Until(p.(sdk.TimedProcessor).Deadline()))
			out := windowProcess(t, p, nil)
			if len(out.after) != 1 || fmt.Sprint(out.after[0]["sum"]) != fmt.Sprint(test.sum) ||
				out.after[0]["min"] != test.min || out.after[0]["max"] != test.max {
				t.Errorf("%v: got %v, %v", test.values, out.after, out.refused)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		p := windowOpen(t, map[string]string{"window.size": "1m", "fields.sum": "sum(.Payload.After.a)"})
		if out := windowProcess(t, p, 1,
			object("a", json.Number("1e99999"))); len(out.refused) != 1 ||
			!strings.Contains(out.refused[0], "exponent") {
			t.Errorf("a number that takes too much memory: %+v", out)
		}
	})
}

// aggregated returns the result of a window of values.
func aggregated(t *testing.T, fields map[string]string, values ...any) (result map[string]any, refused []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		settings := map[string]string{"window.size": "1m", "window.records": "8000"}
		for name, f := range fields {
			settings["fields."+name] = f
		}
		p := windowOpen(t, settings)
		objects := make([]map[string]any, len(values))
		for i, v := range values {
			objects[i] = object("a", v)
		}
		out := windowProcess(t, p, 1, objects...)
		refused = out.refused
		time.Sleep(time.Minute)
		if all := append(out.after, windowProcess(t, p, nil).after...); len(all) == 1 {
			result = all[0]
			delete(result, "start")
		}
	})
	return result, refused
}

func TestAverages(t *testing.T) {
	for want, values := range map[any][]any{
		2.5:                     {int64(1), int64(4)},
		2.0:                     {0.5, int64(3), 2.5},
		12345678901234567890.11: {json.Number("12345678901234567890.12"), json.Number("12345678901234567890.10")},
		9223372036854775807.0:   {int64(math.MaxInt64), int64(math.MaxInt64)},
		nil:                     {nil},
	} {
		got, refused := aggregated(t, map[string]string{"avg": "avg(.Payload.After.a)"}, values...)
		if got["avg"] != want || len(refused) > 0 {
			t.Errorf("%v: %v, %v, want %v", values, got["avg"], refused, want)
		}
	}
}

// Of few values a percentile is exact: the value with its rank. Of many it is a value with nearly its rank.
func TestPercentiles(t *testing.T) {
	fields := map[string]string{}
	percentiles := map[string]float64{"p1": 1, "p50": 50, "p90": 90, "p99": 99, "p99_9": 99.9, "p100": 100}
	for name := range percentiles {
		fields[name] = strings.ReplaceAll(name, "_", ".") + "(.Payload.After.a)"
	}
	got, _ := aggregated(t, fields, int64(5), 1.5, json.Number("12345678901234567890"), int64(-3))
	want := map[string]any{"p1": -3.0, "p50": 1.5, "p90": 12345678901234567890.0, "p99": 12345678901234567890.0,
		"p99_9": 12345678901234567890.0, "p100": 12345678901234567890.0}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	_, refused := aggregated(t, fields, "text", math.Inf(1), json.Number("1e999"))
	if len(refused) != 3 || !strings.Contains(refused[0], "it is no number") {
		t.Errorf("refused: %q", refused)
	}
	for seed := range uint64(5) {
		random := rand.New(rand.NewPCG(seed, 1))
		const n = 8000
		values, sorted := make([]any, n), make([]float64, n)
		for i := range values {
			sorted[i] = math.Exp(3 * random.NormFloat64())
			values[i] = sorted[i]
		}
		slices.Sort(sorted)
		got, _ := aggregated(t, fields, values...)
		for name, p := range percentiles {
			rank, _ := slices.BinarySearch(sorted, got[name].(float64))
			off, most := math.Abs(100*float64(rank)/n-p), 1.0
			if p <= 1 || p >= 99 {
				most = 0.1
			}
			if off > most {
				t.Errorf("seed %d: %s is off by %.3f %% of the ranks", seed, name, off)
			}
		}
	}
}

// The number of distinct values is exact for few values, and nearly right for many.
func TestDistinct(t *testing.T) {
	fields := map[string]string{"n": "distinct(.Payload.After.a)"}
	got, _ := aggregated(t, fields, "x", "y", "x", nil, int64(1), "1", map[string]any{"a": int64(1)},
		map[string]any{"a": int64(1)})
	if got["n"] != int64(5) {
		t.Errorf("of few: %v", got)
	}
	if got, _ := aggregated(t, fields, nil); got["n"] != int64(0) {
		t.Errorf("of none: %v", got)
	}
	for _, n := range []int{1000, 3000} {
		values := make([]any, 0, 2*n)
		for i := range n {
			values = append(values, fmt.Sprint("user ", i), fmt.Sprint("user ", i))
		}
		got, _ := aggregated(t, fields, values...)
		off := math.Abs(float64(got["n"].(int64)-int64(n))) / float64(n)
		if n <= 1000 && off > 0 || off > 0.03 {
			t.Errorf("of %d: %v", n, got)
		}
	}
}

func TestSlidingWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := windowOpen(t,
			map[string]string{"window.size": "1m", "window.slide": "30s", "fields.sum": "sum(.Payload.After.a)"})
		windowProcess(t, p, "one", object("a", int64(1)))
		time.Sleep(30 * time.Second)
		first := windowProcess(t, p, "two", object("a", int64(10)))
		if diff := cmp.Diff([]map[string]any{object("sum", int64(1), "start", "1999-12-31T23:59:30Z")},
			first.after); diff != "" || len(first.settled) > 0 {
			t.Errorf("the first window settles %v (-want +got):\n%s", first.settled, diff)
		}
		time.Sleep(30 * time.Second)
		second := windowProcess(t, p, nil)
		if diff := cmp.Diff([]map[string]any{object("sum", int64(11), "start", "2000-01-01T00:00:00Z")},
			second.after); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]sdk.Held{{Batch: "one"}}, second.settled); diff != "" {
			t.Errorf("settled (-want +got):\n%s", diff)
		}
	})
}

// Destinations recognize records by source, position and window. No two results have the same values of these, even if
// windows overlap, or if a window has records of two sources with equal positions.
func TestResultsAreToldApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := windowOpen(t, map[string]string{"window.size": "1m", "window.slide": "20s", "key": ".Payload.After.k"})
		seen := map[string]bool{}
		n := 0
		for i := range 12 {
			// Both sources have the same positions, and records of a key come from both in turn.
			records := make([]record.Record, 4)
			for j := range records {
				records[j] = record.Record{Position: fmt.Append(nil, i*2+j/2),
					After: record.Structured(object("k", int64((i+j/2)%2)))}
				records[j].Metadata.Set(record.KeySourceConnectorID, []string{"p:a", "p:b"}[(i/2+j)%2])
			}
			if i%3 == 0 {
				records[1].After, records[2].After = records[2].After, records[1].After
			}
			b := sdk.NewProcessBatch(i, records, nil)
			if err := p.Process(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			for _, e := range b.Emitted() {
				for _, r := range e.Records {
					id := fmt.Sprint(r.Metadata.Get(record.KeySourceConnectorID), " ", string(r.Position), " ",
						r.Metadata.Get(record.KeyWindowStart))
					if n++; seen[id] {
						t.Errorf("two results are known as %s", id)
					}
					seen[id] = true
				}
			}
			time.Sleep(20 * time.Second)
		}
		if n < 10 {
			t.Errorf("there are %d results", n)
		}
	})
}

func TestWindowsByTheTimeOfRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := windowOpen(t, map[string]string{"window.size": "1m", "time": ".Payload.After.t", "lateness": "10s"})
		at := func(s string) map[string]any { return object("t", "2024-01-01T00:"+s+"Z") }
		out := windowProcess(t, p, 1, at("00:00"), at("01:05"), at("00:59"))
		if len(out.after) > 0 {
			t.Errorf("before the lateness is over: %v", out.after)
		}
		out = windowProcess(t, p, 1, at("01:10"), at("00:58"))
		if diff := cmp.Diff([]map[string]any{object("count", int64(2), "start", "2024-01-01T00:00:00Z")},
			out.after); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if len(out.refused) != 1 || !strings.Contains(out.refused[0], "it is late: its time is 2024-01-01T00:00:58Z") {
			t.Errorf("refused %v", out.refused)
		}
		time.Sleep(70 * time.Second) // no record arrives
		out = windowProcess(t, p, nil)
		if len(out.after) != 1 || out.after[0]["count"] != int64(2) || len(out.settled) != 2 {
			t.Errorf("when nothing comes: %+v", out)
		}
	})
}

// A record with a time far ahead is refused, and makes no other record late.
func TestWindowsWithAClockThatIsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // its clock begins at 2000-01-01
		p := windowOpen(t, map[string]string{"window.size": "1m", "time": ".Payload.After.t", "ahead": "5m"})
		at := func(s string) map[string]any { return object("t", s) }
		out := windowProcess(t, p, 1, at("2000-01-01T00:00:01Z"), at("2027-01-01T00:00:00Z"), at("2000-01-01T00:05:01Z"),
			at("2000-01-01T00:00:02Z"), at("2000-01-01T00:05:00Z"), at("2000-01-01T00:05:00Z"))
		want := []string{"its time, 2027-01-01T00:00:00Z, is more than 5m0s ahead of the clock of this machine",
			"its time, 2000-01-01T00:05:01Z, is more than 5m0s ahead of the clock of this machine"}
		if diff := cmp.Diff(want, out.refused); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if len(out.after) != 1 || out.after[0]["count"] != int64(2) {
			t.Errorf("the results are %v", out.after)
		}
		if _, err := windowConfigure(map[string]string{"window.size": "1m", "ahead": "-1s"}); err == nil {
			t.Error("a negative time is accepted")
		}
	})
}

func TestWindowEndsEarlyWhenFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := windowOpen(t, map[string]string{"window.size": "1h", "window.records": "3"})
		out := windowProcess(t, p, 1, object(), object(), object(), object())
		if len(out.after) != 1 || out.after[0]["count"] != int64(3) || len(out.settled) != 3 {
			t.Errorf("%+v", out)
		}
	})
}

func TestAggregateRefuses(t *testing.T) {
	p := windowOpen(t,
		map[string]string{"window.size": "1h", "fields.sum": "sum(.Payload.After.a)",
			"fields.max": "max(.Payload.After.m)"})
	out := windowProcess(t, p, 1, object("a", "text"), object("m", "text"), object("m", int64(1)))
	want := []string{"cannot compute sum of .Payload.After.a: it is no number",
		"cannot compute max of .Payload.After.m: cannot compare values of types integer and text"}
	if diff := cmp.Diff(want, out.refused); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for want, settings := range map[string]map[string]string{
		"must be between 0 and window.size": {"window.size": "1m", "window.slide": "2m"},
		"the most is 1000":                  {"window.size": "1h", "window.slide": "1s"},
		`cannot compute "avg"`:              {"window.size": "1m", "fields.x": "avg"},
		`cannot compute "p101(.Key)"`:       {"window.size": "1m", "fields.x": "p101(.Key)"},
		`cannot compute "median(.Key)"`:     {"window.size": "1m", "fields.x": "median(.Key)"},
		`cannot compute "sum"`:              {"window.size": "1m", "fields.x": "sum"},
		"must be less than 8001, not 9000":  {"window.size": "1m", "window.records": "9000"},
		".Key has no name for the results":  {"window.size": "1m", "key": ".Key"},
	} {
		if _, err := windowConfigure(settings); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", settings, err, want)
		}
	}
}

// TestRecordsCountByTheirOwnTime delivers records some time after they were created or read. Each counts in the minute
// of the time in its metadata.
func TestRecordsCountByTheirOwnTime(t *testing.T) {
	const never = -1
	type given struct{ now, created, read int } // seconds
	for name, c := range map[string]struct {
		records []given
		want    []string // for each result: its minute, its count, and the second at which it was emitted
	}{
		"nothing is known": {[]given{{70, never, never}, {130, never, never}},
			[]string{"1: 1 at 120", "2: 1 at 180"}},
		"it was read just before": {[]given{{59, never, 58}, {60, never, 59}, {65, never, 65}},
			[]string{"0: 2 at 61", "1: 1 at 121"}},
		"it came to be before it was read": {[]given{{70, 10, 70}, {71, 20, 71}}, []string{"0: 2 at 130"}},
		"what waited during an outage, in order": {[]given{{600, 10, 600}, {600, 50, 600}, {600, 70, 600},
			{600, 110, 600}, {600, 130, 600}, {601, 600, 601}}, []string{"0: 2 at 600", "1: 2 at 600", "2: 1 at 601",
			"10: 1 at 661"}},
		"what was spooled during an outage": {[]given{{600, never, 10}, {600, never, 70}, {600, never, 130}},
			[]string{"0: 1 at 600", "1: 1 at 600", "2: 1 at 660"}},
		"it comes after its window has ended": {[]given{{30, 30, 30}, {70, 70, 70}, {80, 50, 80}, {90, 55, 90},
			{125, 121, 125}}, []string{"0: 1 at 61", "1: 1 at 121", "0: 2 at 140", "2: 1 at 181"}},
		"the clock of its source is ahead": {[]given{{10, 3000, 10}, {20, 20, 20}, {70, 70, 70}},
			[]string{"0: 1 at 61", "50: 1 at 70", "1: 1 at 121"}},
		"a time that is none": {[]given{{10, 0, 10}}, []string{"0: 1 at 61"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now() // at the beginning of a minute
				p := windowOpen(t, map[string]string{"window.size": "1m"})
				var got []string
				note := func(b *sdk.ProcessBatch) {
					if err := p.Process(t.Context(), b); err != nil {
						t.Fatal(err)
					}
					for _, e := range b.Emitted() {
						begin, _ := time.Parse(time.RFC3339, e.Records[0].Metadata.Get("window.start"))
						after, _ := e.Records[0].After.Structured()
						got = append(got, fmt.Sprintf("%d: %v at %d", begin.Sub(start)/time.Minute, after["count"],
							time.Since(start)/time.Second))
					}
				}
				end := func(until time.Time) {
					for d := p.(sdk.TimedProcessor).Deadline(); !d.IsZero() &&
						!d.After(until); d = p.(sdk.TimedProcessor).Deadline() {
						time.Sleep(time.Until(d))
						note(sdk.NewProcessBatch(nil, nil, nil))
					}
					time.Sleep(time.Until(until))
				}
				for i, g := range c.records {
					end(start.Add(time.Duration(g.now) * time.Second))
					r := record.Record{Position: fmt.Append(nil, i)}
					for key, second := range map[string]int{record.KeyCreatedAt: g.created, record.KeyReadAt: g.read} {
						switch {
						case second == 0:
							r.Metadata.Set(key, "0")
						case second > 0:
							r.Metadata.Set(key, fmt.Sprint(start.Add(time.Duration(second)*time.Second).UnixNano()))
						}
					}
					note(sdk.NewProcessBatch(i, []record.Record{r}, nil))
				}
				end(start.Add(time.Hour))
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestEarlyEndsAreReported checks that the log warns of windows that become several records, at most once a minute.
func TestEarlyEndsAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		ctx := sdk.WithEnv(t.Context(), &sdk.Env{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		p := windowOpen(t, map[string]string{"window.size": "1h", "window.records": "2"})
		process := func(n int) {
			records := make([]record.Record, n)
			for i := range records {
				records[i] = record.Record{Position: fmt.Append(nil, i), After: record.Structured(map[string]any{"a": 1})}
			}
			if err := p.Process(ctx, sdk.NewProcessBatch(0, records, nil)); err != nil {
				t.Fatal(err)
			}
		}
		release := func() {
			if err := p.(sdk.Releaser).Release(ctx, sdk.NewProcessBatch(0, nil, nil)); err != nil {
				t.Fatal(err)
			}
		}
		warnings := func() int { return strings.Count(log.String(), "windows end early and become several records") }
		release() // there are no windows
		process(1)
		if n := warnings(); n != 0 {
			t.Errorf("%d warnings before a window ended early: %s", n, &log)
		}
		process(5)
		if n := warnings(); n != 1 || !strings.Contains(log.String(), "they hold 2 records, which is window.records") {
			t.Errorf("%d warnings after two ends in a moment: %s", n, &log)
		}
		time.Sleep(time.Minute)
		process(1)
		release()
		if n := warnings(); n != 2 || !strings.Contains(log.String(), "the source cannot read more") {
			t.Errorf("%d warnings after another end a minute later: %s", n, &log)
		}
	})
}

// TestReleaseEndsAllWindows releases all held records.
func TestReleaseEndsAllWindows(t *testing.T) {
	p := windowOpen(t, map[string]string{"window.size": "1h", "time": ".Payload.After.t", "lateness": "24h"})
	out := windowProcess(t, p, 1, object("t", "2024-01-01T00:00:00Z"), object("t", "2024-01-01T05:00:00Z"))
	b := sdk.NewProcessBatch(nil, nil, nil)
	if err := p.(sdk.Releaser).Release(t.Context(), b); err != nil || len(out.after) > 0 || len(b.Emitted()) != 2 ||
		!p.(sdk.TimedProcessor).Deadline().IsZero() {
		t.Errorf("%v and then %v, error %v", out, b.Emitted(), err)
	}
}

// TestEveryHeldRecordIsSettledOnce sends records at random times through random windows.
func TestEveryHeldRecordIsSettledOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctestRun(t, func() {
			slide := rapid.IntRange(1, 20).Draw(rt, "slide")
			settings := map[string]string{"window.size": fmt.Sprint(slide*rapid.IntRange(1, 5).Draw(rt, "overlap"),
				"s"), "window.slide": fmt.Sprint(slide, "s"),
				"window.records": fmt.Sprint(rapid.IntRange(1, 50).Draw(rt, "records")), "key": ".Payload.After.k"}
			p, err := windowConfigure(settings)
			if err != nil {
				rt.Fatal(err)
			}
			seen, total := map[sdk.Held]int{}, 0
			note := func(out results) {
				for _, h := range out.settled {
					seen[h]++
				}
			}
			for token := range 20 {
				n := rapid.IntRange(0, 5).Draw(rt, "batch")
				objects := make([]map[string]any, n)
				for i := range objects {
					objects[i] = object("k", rapid.IntRange(0, 2).Draw(rt, "key"))
				}
				note(windowProcess(rt, p, token, objects...))
				total += n
				time.Sleep(time.Duration(rapid.IntRange(0, 15).Draw(rt, "pause")) * time.Second)
			}
			time.Sleep(time.Hour)
			note(windowProcess(rt, p, 99))
			if len(seen) != total {
				rt.Fatalf("%d of %d records are settled", len(seen), total)
			}
			for h, n := range seen {
				if n != 1 {
					rt.Fatalf("%v is settled %d times", h, n)
				}
			}
		})
	})
}

func synctestRun(t *testing.T, f func()) { synctest.Test(t, func(*testing.T) { f() }) }
