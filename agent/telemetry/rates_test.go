package telemetry_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/agent/telemetry"
	"github.com/conduit-agent/conduit/plugins/processor"
)

// runs are pipelines that only have counters.
type runs map[string]*measure.Pipeline

func (r runs) Running() map[string]*engine.Pipeline {
	all := map[string]*engine.Pipeline{}
	for id := range r {
		all[id] = &engine.Pipeline{}
	}
	return all
}

func (r runs) Stats() map[string]*measure.Pipeline    { return r }
func (r runs) Starts() map[string]uint64              { return nil }
func (r runs) Restarts() map[string]uint64            { return nil }
func (r runs) Processor(_, _ string) *processor.Stats { return nil }

// EachProcessor has one processor with counters in every pipeline.
func (r runs) EachProcessor(id string, f func(string, *processor.Stats)) { f(id+":mark", &counted) }

var counted processor.Stats

func (r runs) Pipeline(id string) (*engine.Pipeline, *measure.Pipeline) {
	if r[id] == nil {
		return nil, nil
	}
	return &engine.Pipeline{}, r[id]
}

func TestRates(t *testing.T) {
	p := &measure.Pipeline{}
	rates := &telemetry.Rates{Runs: runs{"p": p}}
	now := time.Now()
	src, dst := p.Source("p:src"), p.Destination("p:dst")
	second := func(records, bytes uint64) {
		src.Records.Add(records)
		src.Bytes.Add(bytes)
		src.Filtered.Add(records / 2)
		dst.Records.Add(records / 2)
		dst.Nacked.Add(1)
		counted.In.Add(records)
		counted.Filtered.Add(records / 2)
		now = now.Add(time.Second)
		rates.Sample(now)
	}
	rates.Sample(now)
	if got := rates.Get("p"); got != nil {
		t.Fatalf("one sample says %+v", got)
	}
	second(100, 1000)
	if got := rates.Get("p"); got.Records != 100 || got.Bytes != 1000 || len(got.Series) != 1 {
		t.Fatalf("after a second: %+v", got)
	}
	for range 5 {
		second(20, 200)
	}
	got := rates.Get("p") // the first second is out of the window
	if got.Records != 20 || got.Bytes != 200 || got.Lag != nil || got.Oldest != nil {
		t.Errorf("over the last seconds: %+v", got)
	}
	if s := got.Stages["p:src"]; s.Records != 20 || s.Bytes != 200 || s.Filtered != 10 || s.Refused != 0 ||
		s.Busy != 0 {
		t.Errorf("the source: %+v", s)
	}
	if s := got.Stages["p:dst"]; s.Records != 10 || s.Refused != 1 {
		t.Errorf("the destination: %+v", s)
	}
	if s := got.Stages["p:mark"]; s.Records != 20 || s.Filtered != 10 || s.Busy != 0 {
		t.Errorf("the processor: %+v", s)
	}
	if len(got.Series) != 6 || got.Series[0] != 100 || got.Series[5] != 20 {
		t.Errorf("series %v", got.Series)
	}
	for range 400 {
		second(1, 1)
	}
	if got := rates.Get("p").Series; len(got) != 180 || got[0] != 1 || got[179] != 1 {
		t.Errorf("series of %d values from %v", len(got), got[0])
	}
	second(7, 7)
	if got := rates.Get("p").Series; len(got) != 180 || got[178] != 1 || got[179] != 7 {
		t.Errorf("series of %d values ends with %v", len(got), got[178:])
	}
}

// busyFor makes a meter show a wait for d, or a wait until the test ends.
func busyFor(t *testing.T, m *measure.Meter, d time.Duration) {
	end := make(chan struct{})
	if d > 0 {
		time.AfterFunc(d, func() { close(end) })
		_ = m.Wait(t.Context(), end)
		return
	}
	t.Cleanup(func() { close(end) })
	go func() { _ = m.Wait(t.Context(), end) }()
}

// The stage that holds a pipeline back is marked, with the stages that wait for it.
func TestTheSlowStageIsMarked(t *testing.T) {
	const goesOn = 0
	for name, c := range map[string]struct {
		src, dst, step, blocked time.Duration // in each second
		records                 uint64
		want                    map[string]string
	}{
		"nothing happens": {src: time.Second, dst: 1, step: 1, blocked: 1},
		"a source": {src: 950 * time.Millisecond, dst: time.Millisecond, step: 1, blocked: 1, records: 5,
			want: map[string]string{"p:src": "archive and dst wait for src"}},
		"a destination": {src: 10 * time.Millisecond, dst: 950 * time.Millisecond, step: 1, blocked: 1,
			records: 5, want: map[string]string{"p:dst": "src waits for dst"}},
		"a destination for long": {src: 10 * time.Millisecond, dst: goesOn, step: 1, blocked: 1,
			want: map[string]string{"p:dst": "src waits for dst"}},
		"a processor": {src: 10 * time.Millisecond, dst: time.Millisecond, step: 950 * time.Millisecond,
			blocked: 700 * time.Millisecond, records: 5, want: map[string]string{"p:mark": "src waits for mark"}},
		"a processor for long": {src: 10 * time.Millisecond, dst: time.Millisecond, step: goesOn, blocked: 1,
			want: map[string]string{"p:mark": "src waits for mark"}},
		"a destination that settles late": {src: 10 * time.Millisecond, dst: 20 * time.Millisecond, step: 1,
			blocked: 700 * time.Millisecond, records: 5,
			want: map[string]string{"p:dst": "src waits for dst"}},
		"a destination that settles nothing": {src: 10 * time.Millisecond, dst: 20 * time.Millisecond, step: 1,
			blocked: goesOn, want: map[string]string{"p:dst": "src waits for dst"}},
		"none": {src: 500 * time.Millisecond, dst: 500 * time.Millisecond,
			step: 500 * time.Millisecond, blocked: 1, records: 5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, step := &measure.Pipeline{}, &processor.Stats{}
				rates := &telemetry.Rates{Runs: oneProcessor{runs{"p": p}, step}}
				src, dst := p.Source("p:src"), p.Destination("p:dst")
				p.Destination("p:archive")
				for i := range 7 {
					rates.Sample(time.Now())
					begin := time.Now()
					for m, d := range map[*measure.Meter]time.Duration{&src.Busy: c.src, &dst.Busy: c.dst,
						&src.Blocked: c.blocked} {
						if d > 0 || i == 0 {
							busyFor(t, m, d)
						}
					}
					step.Nanos.Add(uint64(c.step))
					if c.step == goesOn {
						step.Current.Store(1)
					}
					src.Records.Add(c.records)
					time.Sleep(time.Second - time.Since(begin)%time.Second)
				}
				got := map[string]string{}
				for id, s := range rates.Get("p").Stages {
					if s.Slow != "" {
						got[id] = s.Slow
					}
				}
				if len(got) != len(c.want) {
					t.Errorf("marked are %v, want %v", got, c.want)
				}
				for id, words := range c.want {
					if got[id] != words {
						t.Errorf("marked are %v, want %v", got, c.want)
					}
				}
			})
		})
	}
}

// oneProcessor are runs whose pipelines each have the processor mark.
type oneProcessor struct {
	runs
	stats *processor.Stats
}

func (o oneProcessor) EachProcessor(id string, f func(string, *processor.Stats)) {
	f(id+":mark", o.stats)
}

// TestNotesOfProcessors has a processor that misses two fields in all records, and later finds them.
func TestNotesOfProcessors(t *testing.T) {
	step := &processor.Stats{}
	rates := &telemetry.Rates{Runs: oneProcessor{runs{"p": {}}, step}}
	now := time.Now()
	for i, c := range []struct {
		never []string
		want  []string
	}{
		{nil, nil},
		{[]string{".Key.id", ".Payload.After.emial"},
			[]string{"none of its records had .Key.id or .Payload.After.emial so far: is the name right?"}},
		{[]string{}, nil},
	} {
		if step.NeverFound.Store(&c.never); c.never == nil {
			step.NeverFound.Store(nil)
		}
		for n := range 2 {
			rates.Sample(now.Add(time.Duration(2*i+n) * time.Second))
		}
		if diff := cmp.Diff(c.want, rates.Get("p").Stages["p:mark"].Notes); diff != "" {
			t.Errorf("%v (-want +got):\n%s", c.never, diff)
		}
	}
}

// The rates of a pipeline are removed with it.
func TestRatesForgetPipelines(t *testing.T) {
	all := runs{"p": {}, "q": {}}
	rates := &telemetry.Rates{Runs: all}
	now := time.Now()
	for i := range 3 {
		rates.Sample(now.Add(time.Duration(i) * time.Second))
	}
	if got := rates.All(); len(got) != 2 || got[0].ID != "p" || got[1].ID != "q" {
		t.Errorf("rates of %+v", got)
	}
	delete(all, "q")
	rates.Sample(now.Add(time.Minute))
	if got := rates.All(); len(got) != 1 || rates.Histories() != 1 {
		t.Errorf("rates of %+v, %d are kept", got, rates.Histories())
	}
}

func TestRatesSampleEachSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rates := &telemetry.Rates{Runs: runs{"p": {}}}
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- rates.Run(ctx) }()
		time.Sleep(10*time.Second + time.Millisecond)
		synctest.Wait()
		if got := rates.Get("p"); got == nil || len(got.Series) != 10 {
			t.Errorf("after ten seconds: %+v", got)
		}
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func BenchmarkRates(b *testing.B) {
	all := runs{}
	for i := range 1000 {
		p := &measure.Pipeline{}
		p.Source("p:src")
		p.Destination("p:dst")
		all[string(rune(i+0x4000))] = p
	}
	rates := &telemetry.Rates{Runs: all}
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Second)
		rates.Sample(now)
	}
}
