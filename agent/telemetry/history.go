package telemetry

import (
	"math"
	"slices"
	"time"

	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/spec"
)

// A rate is measured between the first and the last of rateSamples samples; a series holds
// seriesLength of them.
const (
	rateSamples  = 6
	seriesLength = 180
)

// history holds the samples of a pipeline, in rings.
type history struct {
	n      int // samples so far
	at     [rateSamples]time.Time
	lags   [rateSamples]lags
	stages []*stage // few, and each sample finds them in the same order
	series [seriesLength]float32
}

// lags sums up the times until records were acknowledged.
type lags struct {
	records uint64
	seconds float64
}

// stage holds the samples of a connector or processor.
type stage struct {
	id      string             // qualified
	typ     spec.ConnectorType // empty for a processor
	n       int                // history.n at the last sample
	samples [rateSamples]counters
}

// counters are the counters of a connector at one time.
type counters struct {
	records, bytes, refused, filtered uint64
	in, out                           uint64 // as in spec.StageRates
	busy, blocked                     passed
}

// passed is a reading of a meter: the seconds of the calls that ended, and the number of the call in progress, 0 for
// none.
type passed struct {
	seconds float64
	call    uint64
}

// sample adds a sample of the current counters.
func (h *history) sample(
	s *measure.Pipeline, processors func(f func(id string, stats *processor.Stats)), now time.Time,
) {
	i := h.n % rateSamples
	h.at[i] = now
	h.lags[i].records, h.lags[i].seconds = s.AckLags.Sum()
	found := 0
	add := func(typ spec.ConnectorType, id string, c counters) {
		one := h.stage(found, typ, id)
		one.samples[i], one.n = c, h.n
		found++
	}
	s.Each(func(typ spec.ConnectorType, id string, stats *measure.Connector) {
		c := counters{records: stats.Records.Load(), bytes: stats.Bytes.Load(), refused: stats.Nacked.Load(),
			filtered: stats.Filtered.Load()}
		c.busy.seconds, c.busy.call = stats.Busy.Sum()
		c.blocked.seconds, c.blocked.call = stats.Blocked.Sum()
		if c.in, c.out = c.records, stats.Acked.Load(); typ == spec.TypeDestination {
			handed, _ := stats.Sizes.Sum()
			c.in, c.out = handed, c.records
		}
		add(typ, id, c)
	})
	processors(func(id string, stats *processor.Stats) {
		busy := passed{seconds: time.Duration(stats.Nanos.Load()).Seconds(), call: stats.Current.Load()}
		add("", id, counters{records: stats.In.Load(), refused: stats.Refused.Load(), filtered: stats.Filtered.Load(),
			in: stats.In.Load(), out: stats.Out.Load(), busy: busy})
	})
	if len(h.stages) > found { // the pipeline no longer has some stages
		h.stages = slices.DeleteFunc(h.stages, func(s *stage) bool { return s.n != h.n })
	}
	if h.n > 0 {
		records, _ := h.read((h.n - 1) % rateSamples)
		h.series[h.n%seriesLength] = float32(records)
	}
	h.n++
}

// stage returns the stage with id, most likely at index i, or a new one.
func (h *history) stage(i int, typ spec.ConnectorType, id string) *stage {
	is := func(s *stage) bool { return s.id == id && s.typ == typ }
	if i < len(h.stages) && is(h.stages[i]) {
		return h.stages[i]
	}
	if i = slices.IndexFunc(h.stages, is); i >= 0 {
		return h.stages[i]
	}
	s := &stage{id: id, typ: typ}
	h.stages = append(h.stages, s)
	return s
}

// read returns the records and bytes per second that all sources read between the sample at index from and the last
// one.
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

// window returns the indices of the kept samples, oldest first.
func (h *history) window() []int {
	kept := make([]int, 0, rateSamples)
	for i := max(0, h.n-rateSamples); i < h.n; i++ {
		kept = append(kept, i%rateSamples)
	}
	return kept
}

// rates returns the rates of the pipeline id over the kept samples. There must be at least two.
func (h *history) rates(id string) *spec.PipelineRates {
	kept := h.window()
	from, to := kept[0], kept[len(kept)-1]
	seconds := h.at[to].Sub(h.at[from]).Seconds()
	all := &spec.PipelineRates{ID: id, Stages: make(map[string]spec.StageRates, len(h.stages)), Series: h.seriesSoFar()}
	slowest := math.Inf(1)
	for _, s := range h.stages {
		one := s.rates(from, to, seconds)
		one.Kind = kindsByType[s.typ]
		one.Busy = s.share(kept, seconds, func(c counters) passed { return c.busy })
		all.Stages[s.id] = one
		if s.typ == spec.TypeSource {
			all.Records += one.Records
			all.Bytes += one.Bytes
		}
		if s.typ == spec.TypeDestination {
			slowest = min(slowest, one.Out)
		}
	}
	if !math.IsInf(slowest, 1) {
		all.Delivered = slowest
	}
	h.markSlow(all, kept, seconds)
	if n := h.lags[to].records - h.lags[from].records; n > 0 {
		mean := (h.lags[to].seconds - h.lags[from].seconds) / float64(n)
		all.Lag = &mean
	}
	return all
}

// kindsByType maps the type of a connector, "" for a processor, to the kind of stage.
var kindsByType = map[spec.ConnectorType]spec.StageKind{"": spec.StageProcessor, spec.TypeSource: spec.StageSource,
	spec.TypeDestination: spec.StageDestination}

// seriesSoFar returns the series, the oldest value first.
func (h *history) seriesSoFar() []float64 {
	length := min(h.n-1, seriesLength)
	all := make([]float64, length)
	for i := range all {
		all[i] = float64(h.series[(h.n-length+i)%seriesLength])
	}
	return all
}

func (s *stage) rates(from, to int, seconds float64) spec.StageRates {
	before, now := s.samples[from], s.samples[to]
	return spec.StageRates{
		Records:  perSecond(before.records, now.records, seconds),
		Bytes:    perSecond(before.bytes, now.bytes, seconds),
		Refused:  perSecond(before.refused, now.refused, seconds),
		Filtered: perSecond(before.filtered, now.filtered, seconds),
		In:       perSecond(before.in, now.in, seconds),
		Out:      perSecond(before.out, now.out, seconds),
	}
}

// share returns the fraction of the time in which a meter ran, from 0 to 1: by the calls that ended, or by the calls
// in progress over several samples.
func (s *stage) share(kept []int, seconds float64, meter func(counters) passed) float64 {
	if seconds <= 0 {
		return 0
	}
	through := 0
	for i := 1; i < len(kept); i++ {
		if call := meter(s.samples[kept[i]]).call; call != 0 && call == meter(s.samples[kept[i-1]]).call {
			through++
		}
	}
	ended := meter(s.samples[kept[len(kept)-1]]).seconds - meter(s.samples[kept[0]]).seconds
	return min(1, max(0, ended/seconds, float64(through)/float64(len(kept)-1)))
}
