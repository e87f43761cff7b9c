package spoollog

import (
	"cmp"
	"slices"
)

// Stats is what a log holds and counted.
type Stats struct {
	Counts
	Segments int
	Records  uint64
	Bytes    int64
	Memory   int64        // bytes that wait to be written, or for the readers
	Readers  []ReaderInfo // by name
}

// Stats returns what the log holds and counted.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Stats{Counts: l.counts, Segments: len(l.segments), Records: l.from(0), Memory: l.held}
	for _, seg := range l.segments {
		s.Bytes += seg.size
	}
	for _, r := range l.readers {
		s.Readers = append(s.Readers, ReaderInfo{r.name, r.low, l.from(r.low)})
	}
	slices.SortFunc(s.Readers, func(a, b ReaderInfo) int { return cmp.Compare(a.Name, b.Name) })
	return s
}

// from returns how many records there are from offset on.
func (l *Log) from(offset uint64) (records uint64) {
	for _, s := range l.segments {
		records += s.end - min(s.end, max(s.base, offset))
	}
	for i := range l.pending {
		f := &l.pending[i]
		records += f.end() - min(f.end(), max(f.first, offset))
	}
	return records
}

// Behind returns how many records the reader has not acknowledged.
func (r *Reader) Behind() uint64 {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	return r.log.from(r.low)
}
