// Package measure counts and times what passes connectors and pipelines.
package measure

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/conduit-agent/conduit/spec"
)

// Connector counts what passed one connector, or the dead-letter queue, since the agent
// started. Counts go on over the runs of a pipeline.
type Connector struct {
	Records  atomic.Uint64 // read from the source, or durable in the destination
	LastRead atomic.Int64  // when a source read a record last, in Unix nanoseconds; 0: not yet
	Bytes    atomic.Uint64 // of the keys and payloads read or handed over for writing
	Acked    atomic.Uint64 // acknowledged to the source
	Nacked   atomic.Uint64 // refused by the destination
	Filtered atomic.Uint64 // of the records read, dropped by processors
	Sizes    Histogram     // of records, in bytes; within a batch all count as its mean
	Reads    Histogram     // seconds that a source takes for a record, waiting for it included; see Sampler
	Writes   Histogram     // seconds that a destination takes for a record; see Sampler
	Busy     Meter         // the calls of Read or Write
	Blocked  Meter         // a source waits until there is space for more outstanding records
	Reports  Reports       // errors that it logs
	Refusals Reports       // why a destination refused records
}

// Passed counts a batch that was read or is to be written.
func (s *Connector) Passed(n, bytes int) {
	s.Bytes.Add(uint64(bytes))
	s.Sizes.Share(SizeBounds, float64(bytes), n)
}

// Pipeline counts what passed a pipeline since the agent started.
type Pipeline struct {
	DeadLetters Connector
	Transits    Histogram // seconds from the end of a read to the record being settled for good
	AckLags     Histogram // seconds from there to the record being acknowledged to its source

	mu           sync.Mutex
	sources      map[string]*Connector // by qualified id; guarded by mu
	destinations map[string]*Connector // by qualified id; guarded by mu
}

// Source returns the stats of a source by qualified id, new ones if there are none.
func (s *Pipeline) Source(id string) *Connector { return s.connector(&s.sources, id) }

// Destination returns the stats of a destination by qualified id, new ones if there are none.
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

// Retain forgets the stats of connectors that are not among ids, which the pipeline has
// no more.
func (s *Pipeline) Retain(ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := func(id string, _ *Connector) bool { return !slices.Contains(ids, id) }
	maps.DeleteFunc(s.sources, gone)
	maps.DeleteFunc(s.destinations, gone)
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
