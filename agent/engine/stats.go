package engine

import "sync/atomic"

// Stats counts what passed one connector since its pipeline started.
type Stats struct {
	Records uint64 // read from the source, or durable in the destination
	Bytes   uint64 // of the records read
	Acked   uint64 // acknowledged to the source
	Nacked  uint64 // refused by the destination
}

type counters struct{ records, bytes, acked, nacked atomic.Uint64 }

// stats holds the counters of a run by connector id. The map is complete before the
// run starts and not changed after.
type stats map[string]*counters

func (s stats) read(id string, n, bytes int) {
	c := s[id]
	c.records.Add(uint64(n))
	c.bytes.Add(uint64(bytes))
}

func (s stats) acked(id string, n int) { s[id].acked.Add(uint64(n)) }

func (s stats) settled(id string, n int, refused error) {
	if refused != nil {
		s[id].nacked.Add(uint64(n))
		return
	}
	s[id].records.Add(uint64(n))
}

// Stats returns the counters of every connector, by qualified id. It may be called at
// any time.
func (p *Pipeline) Stats() map[string]Stats {
	out := make(map[string]Stats, len(p.stats))
	for id, c := range p.stats {
		out[id] = Stats{Records: c.records.Load(), Bytes: c.bytes.Load(), Acked: c.acked.Load(), Nacked: c.nacked.Load()}
	}
	return out
}
