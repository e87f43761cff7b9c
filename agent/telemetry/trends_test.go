package telemetry_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/agent/telemetry"
	"github.com/conduit-agent/conduit/agent/telemetry/trend"
	"github.com/conduit-agent/conduit/spec"
)

// The trends get the difference of the counters every ten seconds, from the first record of a pipeline on.
func TestTrends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, trends := runs{}, &trend.Store{}
		rates := &telemetry.Rates{Runs: all, Trends: trends}
		second := func() {
			time.Sleep(time.Second)
			rates.Sample(time.Now())
		}
		second()
		p := &measure.Pipeline{}
		src, out, other := p.Source("p:src"), p.Destination("p:out"), p.Destination("p:other")
		all["p"] = p
		p.DeadLetters.Records.Store(2) // refused at once
		second()
		for range 20 {
			src.Records.Add(30)
			src.Bytes.Add(3000)
			out.Records.Add(30)
			other.Records.Add(15)
			p.Transits.Observe(measure.DurationBounds, 0.5, 30)
			second()
		}
		got := trends.Get("p", spec.Last15Minutes)
		last := func(values []*float64) float64 {
			for i := len(values) - 1; i >= 0; i-- {
				if values[i] != nil {
					return *values[i]
				}
			}
			return -1
		}
		refused := 0.0
		for _, v := range got.Refused {
			if v != nil {
				refused += *v
			}
		}
		if last(got.Records) != 30 || last(got.Bytes) != 3000 || last(got.Latency) != 0.5 || last(got.Lag) != 0 ||
			refused != 2 || got.Behind != nil || last(got.Destinations["p:out"]) != 30 ||
			last(got.Destinations["p:other"]) != 15 {
			t.Errorf("records %v, bytes %v, latency %v, lag %v, refused %v, behind %v, to out %v, to other %v",
				last(got.Records), last(got.Bytes), last(got.Latency), last(got.Lag), refused, got.Behind,
				last(got.Destinations["p:out"]), last(got.Destinations["p:other"]))
		}
		all["p"] = &measure.Pipeline{} // counters that begin anew
		all["p"].Source("p:src")
		for range 11 {
			second()
		}
		if got := last(trends.Get("p", spec.Last15Minutes).Records); got != 0 {
			t.Errorf("with new counters there are %v records a second", got)
		}
	})
}

// BenchmarkTrends is the sample of a thousand pipelines that is taken every ten seconds.
func BenchmarkTrends(b *testing.B) {
	all := runs{}
	for i := range 1000 {
		p := &measure.Pipeline{}
		p.Source("src").Records.Add(uint64(i))
		p.Destination("out").Records.Add(uint64(i))
		all[fmt.Sprint("p", i)] = p
	}
	rates := &telemetry.Rates{Runs: all, Trends: &trend.Store{}}
	now := time.Now()
	for b.Loop() {
		now = now.Add(trend.Step)
		rates.AddTrends(all, now)
	}
}
