package engine

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/spec"
)

// Stats counts what passed one connector, or the dead-letter queue, since the agent
// started. Counts go on over the runs of a pipeline.
type Stats struct {
	Records  atomic.Uint64 // read from the source, or durable in the destination
	Bytes    atomic.Uint64 // of the records read or handed over for writing
	Acked    atomic.Uint64 // acknowledged to the source
	Nacked   atomic.Uint64 // refused by the destination
	Filtered atomic.Uint64 // of the records read, dropped by processors
	Sizes    Histogram     // of records, in bytes; within a batch all count as its mean
	Reads    Histogram     // seconds that a source's Read takes, waiting for records included; sampled
	Writes   Histogram     // seconds that a destination's Write takes; sampled
}

// CallsPerMeasurement is how many calls share one measurement of the time: at one record a
// call, reading the clock would cost as much as the rest.
const CallsPerMeasurement = 8

// sampling counts calls of which some are measured.
type sampling int

// timed calls call and now and then measures how long it takes.
func (s *sampling) timed(h *Histogram, call func() error) error {
	if *s++; *s%CallsPerMeasurement != 1 {
		return call()
	}
	begin := time.Now()
	err := call()
	if err == nil {
		h.observe(DurationBounds, time.Since(begin).Seconds(), 1)
	}
	return err
}

// passed counts a batch that was read or is to be written.
func (s *Stats) passed(n, bytes int) {
	s.Bytes.Add(uint64(bytes))
	s.Sizes.observe(SizeBounds, float64(bytes)/float64(n), n)
}

// PipelineStats counts what passed a pipeline since the agent started.
type PipelineStats struct {
	DeadLetters Stats
	Transits    Histogram // seconds from the end of a read to the record being settled for good
	AckLags     Histogram // seconds from there to the record being acknowledged to its source

	mu           sync.Mutex
	sources      map[string]*Stats // by qualified id; guarded by mu
	destinations map[string]*Stats // by qualified id; guarded by mu
}

// Source returns the stats of a source by qualified id, new ones if there are none.
func (s *PipelineStats) Source(id string) *Stats { return s.connector(&s.sources, id) }

// Destination returns the stats of a destination by qualified id, new ones if there are none.
func (s *PipelineStats) Destination(id string) *Stats { return s.connector(&s.destinations, id) }

func (s *PipelineStats) connector(all *map[string]*Stats, id string) *Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	if *all == nil {
		*all = map[string]*Stats{}
	}
	c := (*all)[id]
	if c == nil {
		c = &Stats{}
		(*all)[id] = c
	}
	return c
}

// retain forgets the stats of connectors that are not among ids, which the pipeline has
// no more.
func (s *PipelineStats) retain(ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := func(id string, _ *Stats) bool { return !slices.Contains(ids, id) }
	maps.DeleteFunc(s.sources, gone)
	maps.DeleteFunc(s.destinations, gone)
}

// Ran reports whether a connector with this qualified id ran.
func (s *PipelineStats) Ran(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sources[id] != nil || s.destinations[id] != nil
}

// Each calls f with the stats of every connector that ran, by qualified id. f must not call
// methods of s.
func (s *PipelineStats) Each(f func(typ spec.ConnectorType, id string, stats *Stats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, c := range s.sources {
		f(spec.TypeSource, id, c)
	}
	for id, c := range s.destinations {
		f(spec.TypeDestination, id, c)
	}
}

// Lag says how far a source is from its end of the pipeline. Sequences count the
// records of the current run.
type Lag struct {
	Read, Settled, Committed, Acked uint64
	OldestUnacked                   time.Duration // since the oldest record not yet acknowledged was read
}

// Lags returns the lag of every source by qualified id, nothing while the pipeline does
// not run. It may be called at any time.
func (p *Pipeline) Lags() map[string]Lag {
	r := p.running.Load()
	if r == nil {
		return nil
	}
	lags := make(map[string]Lag, len(r.sources))
	for _, s := range r.sources {
		lags[s.id] = s.lag()
	}
	return lags
}

func (s *sourceRun) lag() Lag {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.tracker.Marks
	l := Lag{Read: m.Read, Settled: m.Low, Committed: m.Committed, Acked: m.Acked}
	if readAt, ok := s.tracker.Oldest(); ok {
		l.OldestUnacked = time.Since(readAt)
	}
	return l
}
