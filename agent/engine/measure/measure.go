// Package measure counts and times records that pass connectors and pipelines.
package measure

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/conduit-agent/conduit/spec"
)

// Connector counts records that passed one connector, or the dead-letter queue, since the agent started. Counts
// continue over the runs of a pipeline.
type Connector struct {
	Records  atomic.Uint64 // read from the source, or durable in the destination
	LastRead atomic.Int64  // when the source last read a record, in Unix nanoseconds; 0: not yet
	Bytes    atomic.Uint64 // size of the keys and payloads read or passed to Write
	Acked    atomic.Uint64 // acknowledged to the source
	Nacked   atomic.Uint64 // refused by the destination
	Filtered atomic.Uint64 // number of records read that processors dropped
	Sizes    Histogram     // size of records in bytes; within a batch all count as its mean
	Reads    Histogram     // seconds that a source takes for a record, including the wait for it; see Sampler
	Writes   Histogram     // seconds that a destination takes for a record; see Sampler
	Busy     Meter         // the calls of Read or Write
	Blocked  Meter         // time in which a source waits until more records may be outstanding
	Reports  Reports       // errors that it logs
	Refusals Reports       // errors with which a destination refused records
}

// Passed counts a batch that was read or is about to be written.
func (s *Connector) Passed(n, bytes int) {
	s.Bytes.Add(uint64(bytes))
	s.Sizes.ObserveMean(SizeBounds, float64(bytes), n)
}

// Pipeline counts records that passed a pipeline since the agent started.
type Pipeline struct {
	DeadLetters Connector
	Transits    Histogram // seconds from the end of a read until the record is settled
	AckLags     Histogram // seconds from there until the record is acknowledged to its source

	mu           sync.Mutex
	sources      map[string]*Connector // by qualified id; guarded by mu
	destinations map[string]*Connector // by qualified id; guarded by mu
	refusals     map[string]*Reports   // of processors, by qualified id; guarded by mu
}

// Source returns the stats of a source by qualified id. It creates them if there are none.
func (s *Pipeline) Source(id string) *Connector { return s.connector(&s.sources, id) }

// Destination returns the stats of a destination by qualified id. It creates them if there are none.
func (s *Pipeline) Destination(id string) *Connector { return s.connector(&s.destinations, id) }

func (s *Pipeline) connector(all *map[string]*Connector, id string) *Connector {
	s.mu.Lock()
	defer s.mu.Unlock()
	if *all == nil {
		*all = map[string]*Connector{}
	}
	c := (*all)[id]
	if c == nil {
		c = &Connector{}
		(*all)[id] = c
	}
	return c
}

// Refusals returns the errors with which the processor with this qualified id refused records.
func (s *Pipeline) Refusals(processor string) *Reports {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusals == nil {
		s.refusals = map[string]*Reports{}
	}
	r := s.refusals[processor]
	if r == nil {
		r = &Reports{}
		s.refusals[processor] = r
	}
	return r
}

// Retain removes the stats of connectors and processors that are not among ids, which the pipeline no longer has.
func (s *Pipeline) Retain(ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := func(id string, _ *Connector) bool { return !slices.Contains(ids, id) }
	maps.DeleteFunc(s.sources, gone)
	maps.DeleteFunc(s.destinations, gone)
	maps.DeleteFunc(s.refusals, func(id string, _ *Reports) bool { return !slices.Contains(ids, id) })
}

// Ran reports whether a connector with this qualified id ran.
func (s *Pipeline) Ran(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sources[id] != nil || s.destinations[id] != nil
}

// Each calls f with the stats of every connector that ran, by qualified id. f must not call
// methods of s.
func (s *Pipeline) Each(f func(typ spec.ConnectorType, id string, c *Connector)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, c := range s.sources {
		f(spec.TypeSource, id, c)
	}
	for id, c := range s.destinations {
		f(spec.TypeDestination, id, c)
	}
}
