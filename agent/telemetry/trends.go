package telemetry

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/agent/telemetry/trend"
	"github.com/conduit-agent/conduit/spec"
)

// soFar are counters of a pipeline at one time.
type soFar struct {
	at                               time.Time
	records, bytes, refused, settled uint64
	transit                          float64
	destinations                     []destinationTotal // by id
}

type destinationTotal struct {
	id       string
	accepted uint64
}

// addTrends adds the changes of the counters of the running pipelines since the last call.
func (r *Rates) addTrends(stats map[string]*measure.Pipeline, now time.Time) {
	for id, s := range stats {
		before, after := r.counted[id], countedNow(s, now)
		running, _ := r.Runs.Pipeline(id)
		if r.counted[id] = after; running == nil {
			continue
		}
		sample := after.since(before)
		for _, lag := range running.Lags() {
			sample.Lag = max(sample.Lag, lag.OldestUnacked.Seconds())
			if n := lag.Behind.Records; n != nil {
				sample.Behind = max(0, sample.Behind) + float64(*n)
			}
		}
		r.Trends.Add(id, now, sample)
	}
}

// meet records new pipelines, whose counters began at 0 after the previous call, and forgets removed ones.
func (r *Rates) meet(stats map[string]*measure.Pipeline, now time.Time) {
	if r.counted == nil {
		r.counted, r.met = map[string]*soFar{}, now
	}
	for id := range stats {
		if r.counted[id] == nil {
			r.counted[id] = &soFar{at: r.met}
		}
	}
	r.met = now
	if len(r.counted) > len(stats) {
		maps.DeleteFunc(r.counted, func(id string, _ *soFar) bool { return stats[id] == nil })
	}
}

func countedNow(s *measure.Pipeline, now time.Time) *soFar {
	t := &soFar{at: now, refused: s.DeadLetters.Records.Load()}
	t.settled, t.transit = s.Transits.Sum()
	s.Each(func(typ spec.ConnectorType, id string, c *measure.Connector) {
		if typ == spec.TypeSource {
			t.records += c.Records.Load()
			t.bytes += c.Bytes.Load()
		} else {
			t.destinations = append(t.destinations, destinationTotal{id, c.Records.Load()})
		}
	})
	slices.SortFunc(t.destinations, func(a, b destinationTotal) int { return cmp.Compare(a.id, b.id) })
	return t
}

// since returns the changes since before. A counter that decreased was reset to 0.
func (t *soFar) since(before *soFar) *trend.Sample {
	m := &trend.Sample{
		Seconds: t.at.Sub(before.at).Seconds(),
		Records: passedSince(before.records, t.records),
		Bytes:   passedSince(before.bytes, t.bytes),
		Refused: passedSince(before.refused, t.refused),
		Settled: passedSince(before.settled, t.settled),
		Transit: max(0, t.transit-before.transit),
		Behind:  trend.Unknown,
	}
	for _, d := range t.destinations {
		was := uint64(0)
		if i := slices.IndexFunc(before.destinations, func(b destinationTotal) bool { return b.id == d.id }); i >= 0 {
			was = before.destinations[i].accepted
		}
		m.Destinations = append(m.Destinations, trend.Destination{ID: d.id, Records: passedSince(was, d.accepted)})
	}
	return m
}

func passedSince(before, now uint64) float64 {
	if now < before {
		return 0
	}
	return float64(now - before)
}
