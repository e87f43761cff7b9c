package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/google/go-cmp/cmp"
)

var _ sdk.AsyncDestination = sdk.Standard(sdk.Connector{
	NewDestination: func() sdk.Destination { return &sink{} },
}).NewDestination().(sdk.AsyncDestination)

// feed is a source whose reads return the answers sent to it.
type feed struct {
	sdk.SourceBase
	settings map[string]string
	events   []string
	reads    chan answer
	limit    int
	panics   bool
	torn     bool
}

type answer struct {
	records []record.Record
	err     error
	stalls  bool // no answer before records are acknowledged
}

func (f *feed) MaxUnacked() int { return f.limit }

func (*feed) Parameters() sdk.Parameters {
	return sdk.Parameters{"path": {Type: sdk.TypeString, Default: "/tmp"}}
}

func (f *feed) Configure(_ context.Context, s map[string]string) error { f.settings = s; return nil }

func (*feed) Open(context.Context, record.Position) error { return nil }

func (f *feed) Read(ctx context.Context) ([]record.Record, error) {
	if f.panics {
		panic("boom")
	}
	for {
		select {
		case a := <-f.reads:
			if a.stalls {
				sdk.Stalled(ctx)
				continue
			}
			return a.records, a.err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (f *feed) Teardown(context.Context) error { f.torn = true; return nil }

func (f *feed) LifecycleOnUpdated(_ context.Context, before, after map[string]string) error {
	f.events = append(f.events, fmt.Sprint(before, after))
	return nil
}

func (f *feed) LifecycleOnDeleted(_ context.Context, s map[string]string) error {
	f.events = append(f.events, fmt.Sprint(s))
	return nil
}

func openSource(t *testing.T, ctx context.Context, f *feed, settings map[string]string) sdk.Source {
	t.Helper()
	if f.reads == nil {
		f.reads = make(chan answer, 100)
	}
	s := sdk.Standard(sdk.Connector{NewSource: func() sdk.Source { return f }}).NewSource()
	if err := s.Configure(ctx, settings); err != nil {
		t.Fatal(err)
	}
	if err := s.Open(ctx, nil); err != nil {
		t.Fatal(err)
	}
	return s
}

func numbered(from, to int) []record.Record {
	var rs []record.Record
	for i := from; i < to; i++ {
		rs = append(rs, record.Record{Position: record.Position(fmt.Sprint(i)), Operation: record.OperationCreate})
	}
	return rs
}

func positions(rs []record.Record) string {
	var ps []string
	for _, r := range rs {
		ps = append(ps, string(r.Position))
	}
	return strings.Join(ps, " ")
}

func TestStandardParameters(t *testing.T) {
	c := sdk.Standard(sdk.Connector{
		NewSource: func() sdk.Source { return &feed{} }, NewDestination: func() sdk.Destination { return &sink{} },
		SourceDefaults: map[string]string{"sdk.schema.extract.key.enabled": "false"},
	})
	c = sdk.Standard(c) // once is enough
	tests := map[string]struct {
		params sdk.Parameters
		want   []string
	}{
		"source": {c.NewSource().Parameters(), []string{
			"path string /tmp []", "sdk.batch.delay duration 0 []", "sdk.batch.size int 0 [{2 -1}]",
			"sdk.schema.context.enabled bool true []", "sdk.schema.context.name string  []",
			"sdk.schema.extract.key.enabled bool false []", "sdk.schema.extract.key.subject string key []",
			"sdk.schema.extract.payload.enabled bool true []", "sdk.schema.extract.payload.subject string payload []",
			"sdk.schema.extract.type string avro [{4 avro}]",
		}},
		"destination": {c.NewDestination().Parameters(), []string{
			"sdk.batch.delay duration 0 []", "sdk.batch.size int 0 [{2 -1}]",
			"sdk.rate.burst int 0 [{2 -1}]", "sdk.rate.perSecond float 0 [{2 -1}]",
			"sdk.record.format string opencdc/json [{4 opencdc/json,opencdc/text,debezium/json,template,csv,logfmt}]",
			"sdk.record.format.options string  []",
			"sdk.schema.extract.key.enabled bool true []", "sdk.schema.extract.payload.enabled bool true []",
		}},
	}
	types := []string{"", "string", "int", "float", "bool", "file", "duration"}
	for name, test := range tests {
		var got []string
		for n, p := range test.params {
			got = append(got, fmt.Sprint(n, " ", types[p.Type], " ", p.Default, " ", p.Validations))
			if n != "path" && p.Description == "" {
				t.Errorf("%s has no description", n)
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// Instances share their parameters internally, but callers cannot change them.
func TestStandardParametersAreCopies(t *testing.T) {
	c := sdk.Standard(sdk.Connector{NewSource: func() sdk.Source {
		return &feed{}
	}, NewDestination: func() sdk.Destination { return &sink{} }})
	source, destination := c.NewSource(), c.NewDestination()
	want := maps.Clone(source.Parameters())
	clear(source.Parameters())
	clear(destination.Parameters())
	if diff := cmp.Diff(want, c.NewSource().Parameters()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(c.NewDestination().Parameters()) == 0 {
		t.Error("the destination has lost its parameters")
	}
	if err := source.Configure(t.Context(), map[string]string{"sdk.batch.size": "x"}); err == nil {
		t.Error("a bad setting is not refused any more")
	}
}

func TestStandardRefusesUnknownDefault(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	sdk.Standard(sdk.Connector{NewSource: func() sdk.Source {
		return &feed{}
	}, SourceDefaults: map[string]string{"sdk.bach": "1"}})
}

func TestStandardSettings(t *testing.T) {
	f := &feed{}
	s := openSource(t, t.Context(), f, map[string]string{" sdk.batch.size": "3 "})
	if diff := cmp.Diff(map[string]string{"path": "/tmp"}, f.settings); diff != "" {
		t.Error(diff)
	}
	err := s.Configure(t.Context(), map[string]string{"sdk.batch.size": "-1", "pat": "x"})
	want := "\"pat\": is not a setting of this plugin; did you mean \"path\"?\n\"sdk.batch.size\": must be " +
		"greater than -1, not -1"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestStandardRefusesNegativeDelay(t *testing.T) {
	c := sdk.Standard(sdk.Connector{NewSource: func() sdk.Source {
		return &feed{}
	}, NewDestination: func() sdk.Destination { return &sink{} }})
	settings := map[string]string{"sdk.batch.delay": "-5ms"}
	want := `"sdk.batch.delay": must not be negative, like -5ms`
	for _, err := range []error{c.NewSource().Configure(t.Context(), settings),
		c.NewDestination().Configure(t.Context(), settings)} {
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestStandardLifecycle(t *testing.T) {
	f := &feed{}
	s := openSource(t, t.Context(), f, nil)
	same := map[string]string{"sdk.batch.size": "1"}
	if err := s.LifecycleOnUpdated(t.Context(), same, map[string]string{"path": "/tmp"}); err != nil {
		t.Fatal(err)
	}
	if err := s.LifecycleOnUpdated(t.Context(), same, map[string]string{"path": "/x"}); err != nil {
		t.Fatal(err)
	}
	if err := s.LifecycleOnDeleted(t.Context(), same); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"map[path:/tmp] map[path:/x]", "map[path:/tmp]"}, f.events); diff != "" {
		t.Error(diff)
	}
}

func TestBackoffRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &feed{}
		s := openSource(t, t.Context(), f, nil)
		for range 7 {
			f.reads <- answer{err: fmt.Errorf("quiet: %w", sdk.ErrBackoffRetry)}
		}
		f.reads <- answer{records: []record.Record{}} // counts as another one
		f.reads <- answer{records: numbered(1, 2)}
		start := time.Now()
		rs, err := s.Read(t.Context())
		if want := 100*(1+2+4+8+16+32)*time.Millisecond + 10*time.Second; err != nil || len(rs) != 1 ||
			time.Since(start) != want {
			t.Errorf("got %v, %v after %v, want one record after %v", rs, err, time.Since(start), want)
		}
		f.reads <- answer{err: sdk.ErrBackoffRetry}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := s.Read(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v when the context ended", err)
		}
	})
}

func TestSourceBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &feed{}
		s := openSource(t, t.Context(), f, map[string]string{"sdk.batch.size": "3", "sdk.batch.delay": "1s"})
		expect := func(want string, after time.Duration) {
			t.Helper()
			start := time.Now()
			rs, err := s.Read(t.Context())
			if err != nil || positions(rs) != want || time.Since(start) != after {
				t.Fatalf("got %q, %v after %v, want %q after %v", positions(rs), err, time.Since(start), want, after)
			}
		}
		f.reads <- answer{records: numbered(1, 2)}
		f.reads <- answer{records: numbered(2, 6)}
		expect("1 2 3", 0)         // full
		expect("4 5", time.Second) // not full, late
		go func() {                // the read in progress continues
			time.Sleep(5 * time.Second)
			f.reads <- answer{records: numbered(6, 7)}
			time.Sleep(900 * time.Millisecond)
			f.reads <- answer{records: numbered(7, 8)}
		}()
		expect("6 7", 6*time.Second) // the delay counts from the first record
		broken := errors.New("broken")
		f.reads <- answer{records: numbered(8, 9)}
		f.reads <- answer{err: broken}
		expect("8", 0) // an error loses nothing
		if _, err := s.Read(t.Context()); err != broken {
			t.Errorf("got %v", err)
		}
		if err := s.Teardown(t.Context()); err != nil || !f.torn {
			t.Error(err)
		}
	})
}

func TestSourceBatchAtStop(t *testing.T) {
	for name, settings := range map[string]map[string]string{
		"size":  {"sdk.batch.size": "100"},
		"delay": {"sdk.batch.delay": "1h"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &feed{}
				s := openSource(t, t.Context(), f, settings)
				ctx, stop := context.WithCancel(t.Context())
				f.reads <- answer{records: numbered(1, 3)}
				time.AfterFunc(time.Minute, stop)
				if rs, err := s.Read(ctx); err != nil || positions(rs) != "1 2" {
					t.Errorf("got %q, %v", positions(rs), err)
				}
				if _, err := s.Read(ctx); !errors.Is(err, context.Canceled) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

func TestSourceBatchDoesNotModifyConnectorArray(t *testing.T) {
	f := &feed{}
	s := openSource(t, t.Context(), f, map[string]string{"sdk.batch.size": "3"})
	array := numbered(0, 4)
	f.reads <- answer{records: array[:1]}
	f.reads <- answer{records: numbered(7, 9)}
	if rs, err := s.Read(t.Context()); err != nil || positions(rs) != "0 7 8" || positions(array) != "0 1 2 3" {
		t.Errorf("got %q, %v; the array holds %q", positions(rs), err, positions(array))
	}
}

func TestSourceBatchPanics(t *testing.T) {
	s := openSource(t, t.Context(), &feed{panics: true}, map[string]string{"sdk.batch.size": "2"})
	if _, err := s.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "panic: boom") {
		t.Errorf("got %v", err)
	}
}

// sink is a destination that records the writes and refuses the position "bad".
type sink struct {
	sdk.DestinationBase
	mu     sync.Mutex
	writes []string
	at     []time.Duration
	start  time.Time
	text   string
	got    []record.Record
	err    error  // returned instead of writing
	fullAt string // position from which on it returns err
	lie    int    // added to n
	panics bool
}

func (*sink) Parameters() sdk.Parameters { return nil }

func (s *sink) Configure(context.Context, map[string]string) error { return nil }

func (s *sink) Open(context.Context) error { s.start = time.Now(); return nil }

func (s *sink) Write(ctx context.Context, rs []record.Record) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.panics {
		panic("boom")
	}
	if s.err != nil && s.fullAt == "" {
		return 0, s.err
	}
	s.writes, s.at = append(s.writes, positions(rs)), append(s.at, time.Since(s.start))
	for i := range rs {
		switch string(rs[i].Position) {
		case "bad":
			return i, errors.New("refused")
		case s.fullAt:
			return i, s.err
		}
		b, err := sdk.RecordFormat(ctx)(nil, &rs[i])
		if err != nil {
			return i, err
		}
		s.text += string(b) + "\n"
		s.got = append(s.got, rs[i])
	}
	return len(rs) + s.lie, nil
}

func openDestination(t *testing.T, ctx context.Context, s *sink, settings map[string]string) sdk.AsyncDestination {
	t.Helper()
	d := sdk.Standard(sdk.Connector{NewDestination: func() sdk.Destination { return s }}).NewDestination()
	if err := d.Configure(ctx, settings); err != nil {
		t.Fatal(err)
	}
	if err := d.Open(ctx); err != nil {
		t.Fatal(err)
	}
	return d.(sdk.AsyncDestination)
}

func TestDestinationBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sink{}
		d := openDestination(t, t.Context(), s, map[string]string{"sdk.batch.size": "3", "sdk.batch.delay": "1s"})
		var settled []string
		write := func(rs []record.Record) {
			t.Helper()
			err := d.WriteAsync(t.Context(), rs, func(n int, err error) {
				settled = append(settled, fmt.Sprint(n, err))
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		write(numbered(1, 3))
		time.Sleep(600 * time.Millisecond)
		bad := numbered(3, 6)
		bad[0].Position = record.Position("bad")
		write(bad)
		time.Sleep(time.Minute)
		write(numbered(6, 7))
		if err := d.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"1 2 bad", "4 5", "6"}, s.writes); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"2<nil>", "1refused", "2<nil>", "1<nil>"}, trim(settled)); diff != "" {
			t.Error(diff)
		}
		want := []time.Duration{600 * time.Millisecond, 1600 * time.Millisecond, 60600 * time.Millisecond}
		if diff := cmp.Diff(want, s.at); diff != "" {
			t.Error(diff)
		}
		if err := d.Teardown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func trim(in []string) []string {
	for i := range in {
		in[i] = strings.ReplaceAll(in[i], " ", "")
	}
	return in
}

func TestDestinationBreaks(t *testing.T) {
	for name, s := range map[string]*sink{"says too much": {lie: 1}, "says too little": {lie: -1},
		"panics": {panics: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := openDestination(t, t.Context(), s, map[string]string{"sdk.batch.delay": "1s"})
				var broken error
				settled := func(n int, err error) {
					if n > 0 || broken != nil {
						t.Errorf("settled %d, %v", n, err)
					}
					broken = err
				}
				if err := d.WriteAsync(t.Context(), numbered(1, 3), settled); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if broken == nil {
					t.Error("it does not say that it broke")
				}
				if err := d.WriteAsync(t.Context(), numbered(3, 4), settled); err == nil {
					t.Error("it goes on")
				}
			})
		})
	}
}

func TestDestinationBreaksWithoutRefusing(t *testing.T) {
	for _, size := range []string{"0", "1"} {
		for name, s := range map[string]*sink{"says too much": {lie: 1}, "panics": {panics: true}} {
			d := openDestination(t, t.Context(), s, map[string]string{"sdk.batch.size": size})
			err := d.WriteAsync(t.Context(), numbered(1, 3), func(n int, err error) {
				t.Errorf("%s: settled %d, %v", name, n, err)
			})
			if err == nil || d.Flush(t.Context()) == nil {
				t.Errorf("%s: no error", name)
			}
		}
	}
}

func TestDestinationUnavailable(t *testing.T) {
	errFull := errors.New("disk full")
	for name, settings := range map[string]map[string]string{
		"at once": nil, "gathered": {"sdk.batch.size": "3"}, "late": {"sdk.batch.delay": "1s"},
		"flushed": {"sdk.batch.size": "5"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &sink{fullAt: "2", err: sdk.Unavailable(errFull)}
				d := openDestination(t, t.Context(), s, settings)
				var settled []string
				var broken error
				err := d.WriteAsync(t.Context(), numbered(1, 4), func(n int, err error) {
					if n == 0 {
						broken = err
						return
					}
					settled = append(settled, fmt.Sprint(n, err))
				})
				switch name {
				case "late":
					time.Sleep(2 * time.Second)
					synctest.Wait()
					err = broken
				case "flushed":
					err = d.Flush(t.Context())
				}
				if !errors.Is(err, errFull) {
					t.Errorf("got error %v", err)
				}
				if diff := cmp.Diff([]string{"1<nil>"}, trim(settled)); diff != "" {
					t.Error(diff)
				}
				if err := d.WriteAsync(t.Context(), numbered(4, 5), nil); !errors.Is(err, errFull) {
					t.Errorf("it goes on, with error %v", err)
				}
				if err := d.Teardown(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
	if sdk.Unavailable(nil) != nil {
		t.Error("no error is one")
	}
}

func TestDestinationWithoutBatchesWritesAtOnce(t *testing.T) {
	s := &sink{}
	d := openDestination(t, t.Context(), s, nil)
	rs := numbered(1, 5)
	rs[1].Position = record.Position("bad")
	var settled []string
	if err := d.WriteAsync(t.Context(), rs, func(n int, err error) {
		settled = append(settled, fmt.Sprint(n, err))
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"1<nil>", "1refused", "2<nil>"}, trim(settled)); diff != "" {
		t.Error(diff)
	}
}

// A refusal may end the pipeline, which then writes the record again. So no later record may be written before.
func TestDestinationStopsAfterFinalRefusal(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := &sink{}
	d := openDestination(t, ctx, s, nil)
	rs := numbered(1, 5)
	rs[1].Position = record.Position("bad")
	var settled []string
	err := d.WriteAsync(ctx, rs, func(n int, err error) {
		settled = append(settled, fmt.Sprint(n, err))
		if err != nil {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"1<nil>", "1refused"}, trim(settled)); diff != "" {
		t.Error(diff)
	}
}

func TestDestinationStopIsNoRefusal(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	d := openDestination(t, ctx, &sink{err: context.Canceled}, map[string]string{"sdk.batch.size": "1"})
	cancel()
	err := d.WriteAsync(ctx, numbered(1, 2), func(n int, err error) { t.Errorf("settled %d, %v", n, err) })
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestDestinationRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sink{}
		d := openDestination(t, t.Context(), s, map[string]string{"sdk.rate.perSecond": "2", "sdk.rate.burst": "4"})
		if n, err := d.Write(t.Context(), numbered(0, 10)); n != 10 || err != nil {
			t.Fatal(n, err)
		}
		if diff := cmp.Diff([]time.Duration{0, 2 * time.Second, 3 * time.Second}, s.at); diff != "" {
			t.Error(diff, s.writes)
		}
	})
}

func TestDestinationPassesErrorsOn(t *testing.T) {
	d := openDestination(t, t.Context(), &sink{}, nil)
	rs := numbered(1, 4)
	rs[1].Position = record.Position("bad")
	if n, err := d.Write(t.Context(), rs); n != 1 || err == nil {
		t.Error(n, err)
	}
}

func TestRecordFormats(t *testing.T) {
	r := record.Record{
		Position: record.Position("p"), Operation: record.OperationUpdate,
		Metadata: record.NewMetadata(map[string]string{record.KeyReadAt: "1700000000123456789"}),
		Key:      record.Raw([]byte("k")), Before: record.Raw([]byte("b")),
		After: record.Structured(map[string]any{"id": 1, "l": []any{nil, "x"},
			"o": map[string]any{"f": 1.5, "t": true, "b": []byte("y")}}),
	}
	plain, err := record.AppendJSON(nil, &r)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct{ format, options, want string }{
		"default": {"", "", string(plain)},
		"opencdc": {"opencdc/json", "", string(plain)},
		"template": {"template", `{{ .Position }} {{ .Operation }} {{ .Key }} {{ .Payload.Before }} {{ ` +
			`.Payload.After.id }} {{ index .Metadata "opencdc.readAt" | trunc 3 }}`,
			"p update k b 1 170"},
		"debezium": {"debezium/json", "debezium.schema.name=orders, debezium.rawData.key=raw",
			`{"schema":{"type":"struct","name":"orders","fields":[` +
				`{"type":"struct","optional":true,"fields":[{"type":"bytes","field":"raw"}],"field":"before"},` +
				`{"type":"struct","optional":true,"fields":[{"type":"int64","field":"id"},{"type":"array",` +
				`"items":{"type":"string"},"field":"l"},` +
				`{"type":"struct","fields":[{"type":"bytes","field":"b"},{"type":"double","field":"f"},{"type":"boolean",` +
				`"field":"t"}],"field":"o"}],"field":"after"},` +
				`{"type":"struct","optional":true,"fields":[{"type":"string","field":"opencdc.readAt"}],"field":"source"},` +
				`{"type":"string","field":"op"},{"type":"int64","optional":true,"field":"ts_ms"},` +
				debeziumTransaction + `]},` +
				`"payload":{"before":{"raw":"Yg=="},"after":{"id":1,"l":[null,"x"],"o":{"b":"eQ==","f":1.5,"t":true}},` +
				`"source":{"opencdc.readAt":"1700000000123456789"},` +
				`"op":"u","ts_ms":1700000000123,"transaction":null}}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := &sink{}
			d := openDestination(t, t.Context(), s,
				map[string]string{"sdk.record.format": test.format, "sdk.record.format.options": test.options})
			if n, err := d.Write(t.Context(), []record.Record{r}); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			if diff := cmp.Diff(test.want+"\n", s.text); diff != "" {
				t.Error(diff)
			}
		})
	}
}

const debeziumTransaction = `{"type":"struct","optional":true,"fields":[{"type":"string","field":"id"},` +
	`{"type":"int64","field":"total_order"},{"type":"int64","field":"data_collection_order"}],"field":"transaction"}`

// A raw payload that is a JSON object is an object in the Debezium form, too, and a missing side has the schema of the
// other side.
func TestDebeziumOfRawJSON(t *testing.T) {
	s := &sink{}
	d := openDestination(t, t.Context(), s, map[string]string{"sdk.record.format": "debezium/json"})
	r := record.Record{Position: record.Position("p"), Operation: record.OperationCreate,
		After: record.Raw([]byte(`{"id":7161666510241023999,"n":7}`))}
	if n, err := d.Write(t.Context(), []record.Record{r}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	want := `{"schema":{"type":"struct","fields":[{"type":"struct","optional":true,"fields":[{"type":"int64",` +
		`"field":"id"},{"type":"double","field":"n"}],"field":"before"},` +
		`{"type":"struct","optional":true,"fields":[{"type":"int64","field":"id"},{"type":"double","field":"n"}],` +
		`"field":"after"},{"type":"struct","optional":true,"field":"source"},` +
		`{"type":"string","field":"op"},{"type":"int64","optional":true,"field":"ts_ms"},` + debeziumTransaction +
		`]},` +
		`"payload":{"before":null,"after":{"id":7161666510241023999,"n":7},"source":null,"op":"c","ts_ms":null,` +
		`"transaction":null}}`
	if diff := cmp.Diff(want+"\n", s.text); diff != "" {
		t.Error(diff)
	}
}

// The data of a template is the record in the OpenCDC form, with its methods.
func TestTemplateRoot(t *testing.T) {
	r := record.Record{
		Position: record.Position("p"), Operation: record.OperationCreate,
		Metadata: record.NewMetadata(map[string]string{record.KeyCreatedAt: "1700000000123456789",
			record.KeyCollection: "users", record.KeyPayloadSchemaVersion: "3"}),
		Key:   record.Raw([]byte("k")),
		After: record.Structured(map[string]any{"id": int64(1), "in": map[string]any{"x": "y"}}),
	}
	for text, want := range map[string]string{
		`{{ toJson .Operation }}`:                                   `"create"`,
		`{{ .Metadata.GetCreatedAt.UTC.Format "15:04:05.000000" }}`: "22:13:20.123456",
		`{{ .Metadata.GetCollection }}`:                             "users",
		`{{ add .Metadata.GetPayloadSchemaVersion 1 }}`:             "4",
		`{{ printf "%s" .Payload.After.Bytes }}`:                    `{"id":1,"in":{"x":"y"}}`,
		`{{ .Key.Bytes }}`:                                          "k",
		`{{ .Map.operation }}`:                                      "create",
		`{{ typeOf .Payload.After.id }}`:                            "int64",
		`{{ dig "in" "x" "none" .Payload.After }}`:                  "y",
		`{{ hasKey .Payload.After "id" }}`:                          "true",
		`{{ toJson . }}`: `{"position":"cA==","operation":"create","metadata":{"opencdc.collection":"users",` +
			`"opencdc.createdAt":"1700000000123456789",` +
			`"opencdc.payload.schema.version":"3"},"key":"aw==","payload":{"before":null,"after":{"id":1,"in":{"x":"y"}}}}`,
	} {
		s := &sink{}
		d := openDestination(t, t.Context(), s,
			map[string]string{"sdk.record.format": "template", "sdk.record.format.options": text})
		if n, err := d.Write(t.Context(), []record.Record{r}); n != 1 || err != nil || s.text != want+"\n" {
			t.Errorf("%s: wrote %d, %q, %v; want %q", text, n, s.text, err, want)
		}
	}
	for _, text := range []string{`{{ .Metadata.GetReadAt }}`, `{{ .Metadata.GetNothing }}`} {
		d := openDestination(t, t.Context(), &sink{},
			map[string]string{"sdk.record.format": "template", "sdk.record.format.options": text})
		if n, err := d.Write(t.Context(), []record.Record{r}); n != 0 || err == nil {
			t.Errorf("%s: wrote %d, %v", text, n, err)
		}
	}
}

func TestRecordFormatRefuses(t *testing.T) {
	d := sdk.Standard(sdk.Connector{NewDestination: func() sdk.Destination { return &sink{} }}).NewDestination()
	for want, settings := range map[string]map[string]string{
		`"sdk.record.format": must be one of`: {"sdk.record.format": "xml"},
		`"sdk.record.format.options": cannot parse`: {"sdk.record.format": "template",
			"sdk.record.format.options": "{{"},
		`there is no function "env"`: {"sdk.record.format": "template",
			"sdk.record.format.options": `{{ env "HOME" }}`},
		`"sdk.record.format.options": "debezium.schma.name"`: {"sdk.record.format": "debezium/json",
			"sdk.record.format.options": "debezium.schma.name=x"},
		`use name=value`: {"sdk.record.format": "debezium/json",
			"sdk.record.format.options": "x"},
	} {
		if err := d.Configure(t.Context(), settings); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	s := &sink{}
	open := openDestination(t, t.Context(), s,
		map[string]string{"sdk.record.format": "template", "sdk.record.format.options": "{{ .Payload.After.x }}"})
	rs := numbered(1, 2)
	rs[0].After = record.Structured(map[string]any{"y": 1})
	if n, err := open.Write(t.Context(), rs); n != 0 || err == nil {
		t.Errorf("a missing key: got %d, %v", n, err)
	}
}

// registered returns a context with a registry, and the schema of m, which is version 1 of the subject s in that
// registry.
func registered(t *testing.T, m map[string]any) (context.Context, string) {
	t.Helper()
	reg := &schema.Memory{}
	text, err := schema.Infer(m)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reg.Create(t.Context(), "s", schema.TypeAvro, text); err != nil {
		t.Fatal(err)
	}
	return sdk.WithEnv(t.Context(), &sdk.Env{Schemas: reg}), text
}

func TestDestinationDecodes(t *testing.T) {
	m := map[string]any{"a": int64(1)}
	ctx, text := registered(t, m)
	codec, _ := schema.Parse(text)
	b, _ := codec.Append(nil, m)
	rs := numbered(1, 4)
	for i := range rs {
		rs[i].After = record.Raw(b)
	}
	rs[0].Metadata = record.NewMetadata(map[string]string{record.KeyPayloadSchemaSubject: "s",
		record.KeyPayloadSchemaVersion: "1"})
	rs[2].Metadata = record.NewMetadata(map[string]string{record.KeyPayloadSchemaSubject: "s",
		record.KeyPayloadSchemaVersion: "2"})
	s := &sink{}
	n, err := openDestination(t, ctx, s, nil).Write(ctx, rs)
	if n != 2 || !errors.Is(err, schema.ErrVersionNotFound) {
		t.Fatal(n, err)
	}
	if !s.got[0].After.Equal(record.Structured(m)) || !s.got[1].After.Equal(record.Raw(b)) {
		t.Errorf("got %v", s.got)
	}
}

// Records of a batch that need much memory when decoded are written in parts, within one call.
func TestDestinationDecodesInParts(t *testing.T) {
	m := map[string]any{"a": strings.Repeat("x", 1<<20)}
	ctx, text := registered(t, m)
	codec, _ := schema.Parse(text)
	b, _ := codec.Append(nil, m)
	rs := numbered(1, 40)
	for i := range rs {
		rs[i].After = record.Raw(b)
		rs[i].Metadata = record.NewMetadata(map[string]string{record.KeyPayloadSchemaSubject: "s",
			record.KeyPayloadSchemaVersion: "1"})
	}
	env := *sdk.EnvFrom(ctx)
	env.Budget = 8 << 20
	s := &sink{}
	if n, err := openDestination(t, ctx, s, nil).Write(sdk.WithEnv(ctx, &env), rs); n != len(rs) || err != nil {
		t.Fatal(n, err)
	}
	if n := len(s.writes); n < 2 {
		t.Errorf("the destination got them in %d writes", n)
	}
}

// A destination without decoding receives the records as a source in another process sends them: parts encoded with the
// schemas named in the metadata.
func TestDestinationThatDecodesNothing(t *testing.T) {
	m := map[string]any{"a": int64(1)}
	ctx, _ := registered(t, m)
	rs := numbered(1, 3)
	for i := range rs {
		rs[i].Key, rs[i].After = record.Structured(m), record.Structured(m)
	}
	rs[0].Metadata = record.NewMetadata(map[string]string{record.KeyPayloadSchemaSubject: "s",
		record.KeyPayloadSchemaVersion: "1"})
	s := &sink{}
	d := openDestination(t, ctx, s, map[string]string{"sdk.schema.extract.payload.enabled": "false",
		"sdk.schema.extract.key.enabled": "false"})
	if n, err := d.Write(ctx, rs); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	if !s.got[0].After.Equal(record.Raw([]byte{2})) || !s.got[0].Key.Equal(record.Structured(m)) ||
		!s.got[1].After.Equal(record.Structured(m)) {
		t.Errorf("got %v", s.got)
	}
	if !rs[0].After.Equal(record.Structured(m)) {
		t.Errorf("the record lent is now %v", rs[0])
	}
}

// The destination does not change the records, because other destinations and the dead-letter queue share them.
func TestDestinationDoesNotModifyRecords(t *testing.T) {
	registry := &schema.Memory{}
	text, err := schema.Infer(map[string]any{"n": int64(1)})
	if err != nil {
		t.Fatal(err)
	}
	s, err := registry.Create(t.Context(), "subject", schema.TypeAvro, text)
	if err != nil {
		t.Fatal(err)
	}
	r := record.Record{Position: record.Position("1"), After: record.Structured(map[string]any{"n": int64(1)})}
	r.Metadata.Set(record.KeyPayloadSchemaSubject, s.Subject)
	r.Metadata.Set(record.KeyPayloadSchemaVersion, "1")
	if err := (&schema.Cache{Registry: registry}).EncodeRecord(t.Context(), &r,
		schema.Parts{Payload: true}); err != nil {
		t.Fatal(err)
	}
	lent := []record.Record{r.Clone()}
	inner := &lentDestination{}
	d := sdk.Standard(sdk.Connector{Name: "lent", NewDestination: func() sdk.Destination {
		return inner
	}}).NewDestination()
	ctx := sdk.WithEnv(t.Context(), &sdk.Env{Schemas: registry, Logger: slog.New(slog.DiscardHandler)})
	if err := d.Configure(ctx, map[string]string{}); err != nil {
		t.Fatal(err)
	}
	if err := d.Open(ctx); err != nil {
		t.Fatal(err)
	}
	if n, err := d.Write(ctx, lent); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if _, ok := inner.got[0].After.Structured(); !ok {
		t.Error("the destination got an encoded payload")
	}
	if !lent[0].Equal(r) {
		t.Errorf("the record lent is now %v", lent[0])
	}
}

type lentDestination struct {
	sdk.DestinationBase
	got []record.Record
}

func (*lentDestination) Parameters() sdk.Parameters                         { return nil }
func (*lentDestination) Configure(context.Context, map[string]string) error { return nil }
func (*lentDestination) Open(context.Context) error                         { return nil }
func (d *lentDestination) Write(_ context.Context, records []record.Record) (int, error) {
	d.got = append(d.got, records...)
	return len(records), nil
}

// TestSourceBatchesEndEarly checks that a partial batch is returned when the connector returns no more before records
// are acknowledged, says so, or has ended.
func TestSourceBatchesEndEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &feed{limit: 5}
		s := openSource(t, t.Context(), f, map[string]string{"sdk.batch.size": "100"})
		expect := func(ctx context.Context, want string) {
			t.Helper()
			if rs, err := s.Read(ctx); err != nil || positions(rs) != want {
				t.Fatalf("got %q, %v, want %q", positions(rs), err, want)
			}
		}
		f.reads <- answer{records: numbered(1, 4)}
		f.reads <- answer{records: numbered(4, 6)}
		expect(t.Context(), "1 2 3 4 5") // the limit
		if err := s.Ack(t.Context(), []record.Position{record.Position("1"), record.Position("2")}); err != nil {
			t.Fatal(err)
		}
		f.reads <- answer{records: numbered(6, 7)}
		f.reads <- answer{records: numbered(7, 8)}
		expect(t.Context(), "6 7") // with three outstanding
		if err := s.Ack(t.Context(), make([]record.Position, 5)); err != nil {
			t.Fatal(err)
		}
		f.reads <- answer{records: numbered(8, 9)}
		time.AfterFunc(time.Minute, s.(sdk.FinishingSource).Finish)
		expect(t.Context(), "8")
		f.reads <- answer{records: numbered(9, 10)}
		f.reads <- answer{stalls: true}
		told := 0
		ctx := sdk.WithStalled(t.Context(), func() { told++ })
		expect(ctx, "9")
		time.AfterFunc(time.Minute, func() { f.reads <- answer{records: numbered(10, 14)} })
		time.AfterFunc(2*time.Minute, s.(sdk.FinishingSource).Finish)
		expect(ctx, "10 11 12 13") // with one more outstanding
		if told == 0 {
			t.Error("the host does not learn that the connector is stalled")
		}
	})
}
