package telemetry_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/agent/telemetry"
	"github.com/conduit-agent/conduit/plugins/processor"
)

// runs are pipelines that count and do nothing else.
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

// EachProcessor has one that counts in every pipeline.
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
	if got := rates.Of("p"); got != nil {
		t.Fatalf("one sample says %+v", got)
	}
	second(100, 1000)
	if got := rates.Of("p"); got.Records != 100 || got.Bytes != 1000 || len(got.Series) != 1 {
		t.Fatalf("after a second: %+v", got)
	}
	for range 5 {
		second(20, 200)
	}
	got := rates.Of("p") // the first second is out of the window
	if got.Records != 20 || got.Bytes != 200 || got.Lag != nil || got.Oldest != nil {
		t.Errorf("over the last seconds: %+v", got)
	}
	if s := got.Stages["p:src"]; s.Records != 20 || s.Bytes != 200 || s.Filtered != 10 || s.Refused != 0 || s.Busy != nil {
		t.Errorf("the source: %+v", s)
	}
	if s := got.Stages["p:dst"]; s.Records != 10 || s.Refused != 1 {
		t.Errorf("the destination: %+v", s)
	}
	if s := got.Stages["p:mark"]; s.Records != 20 || s.Filtered != 10 || s.Busy != nil {
		t.Errorf("the processor: %+v", s)
	}
	if len(got.Series) != 6 || got.Series[0] != 100 || got.Series[5] != 20 {
		t.Errorf("series %v", got.Series)
	}
	for range 400 {
		second(1, 1)
	}
	if got := rates.Of("p").Series; len(got) != 180 || got[0] != 1 || got[179] != 1 {
		t.Errorf("series of %d values from %v", len(got), got[0])
	}
	second(7, 7)
	if got := rates.Of("p").Series; len(got) != 180 || got[178] != 1 || got[179] != 7 {
		t.Errorf("series of %d values ends with %v", len(got), got[178:])
	}
}

// What a pipeline moved is forgotten with it.
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
		if got := rates.Of("p"); got == nil || len(got.Series) != 10 {
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
