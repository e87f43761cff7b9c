package telemetry

import (
	"maps"
	"time"

	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/spec"
)

// A rate is measured between the first and the last of rateSamples samples; a series holds
// seriesLength of them.
const (
	rateSamples  = 6
	seriesLength = 180
)

// history is what the samples of one pipeline showed, in rings.
type history struct {
	n      int // samples so far
	at     [rateSamples]time.Time
	lags   [rateSamples]lags
	stages map[string]*stage // by qualified id of the connector or processor
	series [seriesLength]float32
}

// lags sums up how long records took to be acknowledged.
type lags struct {
	records uint64
	seconds float64
}

// stage is what the samples showed of one connector or processor.
type stage struct {
	typ     spec.ConnectorType // empty for a processor
	n       int                // history.n when it was sampled last
	samples [rateSamples]counters
}

// counters are those of a connector at one time.
type counters struct {
	records, bytes, refused, filtered uint64
	writes                            uint64  // records written
	writing                           float64 // seconds that took
}

// sample adds what the counters show now.
func (h *history) sample(s *measure.Pipeline, processors func(f func(id string, stats *processor.Stats)), now time.Time) {
	i := h.n % rateSamples
	h.at[i] = now
	h.lags[i].records, h.lags[i].seconds = s.AckLags.Sum()
	add := func(typ spec.ConnectorType, id string, c counters) {
		one := h.stages[id]
		if one == nil || one.typ != typ {
			one = &stage{typ: typ}
			h.stages[id] = one
		}
		one.samples[i], one.n = c, h.n
	}
	s.Each(func(typ spec.ConnectorType, id string, stats *measure.Connector) {
		c := counters{records: stats.Records.Load(), bytes: stats.Bytes.Load(), refused: stats.Nacked.Load(), filtered: stats.Filtered.Load()}
		c.writes, c.writing = stats.Writes.Sum()
		add(typ, id, c)
	})
	processors(func(id string, stats *processor.Stats) {
		add("", id, counters{records: stats.In.Load(), refused: stats.Refused.Load(), filtered: stats.Filtered.Load()})
	})
	maps.DeleteFunc(h.stages, func(_ string, s *stage) bool { return s.n != h.n }) // the pipeline has it no more
	if h.n > 0 {
		records, _ := h.read((h.n - 1) % rateSamples)
		h.series[h.n%seriesLength] = float32(records)
	}
	h.n++
}

// read returns the records and bytes that all sources read per second between the sample at
// index from and the one taken last.
func (h *history) read(from int) (records, bytes float64) {
	to := h.n % rateSamples
	seconds := h.at[to].Sub(h.at[from]).Seconds()
	for _, s := range h.stages {
		if s.typ == spec.TypeSource {
			records += perSecond(s.samples[from].records, s.samples[to].records, seconds)
			bytes += perSecond(s.samples[from].bytes, s.samples[to].bytes, seconds)
		}
	}
	return records, bytes
}

func perSecond(before, now uint64, seconds float64) float64 {
	if now <= before || seconds <= 0 {
		return 0
	}
	return float64(now-before) / seconds
}

// rates returns the rates over the samples that are kept. There are two at least.
func (h *history) rates() *rest.PipelineRates {
	from, to := max(0, h.n-rateSamples)%rateSamples, (h.n-1)%rateSamples
	seconds := h.at[to].Sub(h.at[from]).Seconds()
	all := &rest.PipelineRates{Stages: make(map[string]rest.StageRates, len(h.stages)), Series: h.seriesSoFar()}
	for id, s := range h.stages {
		one := s.rates(from, to, seconds)
		all.Stages[id] = one
		if s.typ == spec.TypeSource {
			all.Records += one.Records
			all.Bytes += one.Bytes
		}
	}
	if n := h.lags[to].records - h.lags[from].records; n > 0 {
		mean := (h.lags[to].seconds - h.lags[from].seconds) / float64(n)
		all.Lag = &mean
	}
	return all
}

// seriesSoFar returns the series, the oldest value first.
func (h *history) seriesSoFar() []float64 {
	length := min(h.n-1, seriesLength)
	all := make([]float64, length)
	for i := range all {
		all[i] = float64(h.series[(h.n-length+i)%seriesLength])
	}
	return all
}

func (s *stage) rates(from, to int, seconds float64) rest.StageRates {
	before, now := s.samples[from], s.samples[to]
	all := rest.StageRates{
		Records:  perSecond(before.records, now.records, seconds),
		Bytes:    perSecond(before.bytes, now.bytes, seconds),
		Refused:  perSecond(before.refused, now.refused, seconds),
		Filtered: perSecond(before.filtered, now.filtered, seconds),
	}
	const slow = 0.9
	if now.writes > before.writes && seconds > 0 {
		busy := min(1, (now.writing-before.writing)/seconds)
		all.Busy = &busy
		if busy >= slow {
			all.Slow = "the sources wait for it"
		}
	}
	return all
}
