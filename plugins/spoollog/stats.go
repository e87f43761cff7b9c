package spoollog

import (
	"cmp"

	"github.com/conduit-agent/conduit/spec/sorting"
)

// Stats is what a log holds and counted.
type Stats struct {
	Counts
	Segments int
	Records  uint64
	Bytes    int64
	Limit    int64        // of Bytes; 0: none
	Memory   int64        // bytes that wait to be written, or for the readers
	Readers  []ReaderInfo // by name
}

// Counts are what a log counted since it was opened.
type Counts struct {
	Torn    int64  // bytes cut from ends that were torn
	Damaged uint64 // records that could not be read
	Dropped uint64 // records that a limit cost
	Written int64  // bytes
}

// Counts returns what was counted since the log was opened.
func (l *Log) Counts() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts()
}

func (l *Log) counts() Counts {
	s := l.segments
	return Counts{Torn: s.torn, Damaged: s.damaged, Dropped: l.retention.dropped, Written: s.written}
}

// Stats returns what the log holds and counted.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Stats{Counts: l.counts(), Segments: len(l.segments.list), Records: l.from(0), Bytes: l.segments.size(), Limit: l.retention.Bytes, Memory: l.queue.bytes}
	for _, p := range l.readers.byName {
		s.Readers = append(s.Readers, ReaderInfo{p.name, p.low, l.from(p.low)})
	}
	sorting.By(s.Readers, func(a, b ReaderInfo) int { return cmp.Compare(a.Name, b.Name) })
	return s
}

// from returns how many records there are from offset on.
func (l *Log) from(offset uint64) uint64 { return l.segments.from(offset) + l.queue.from(offset) }

// Bounds returns the offset of the oldest record there is, and the one behind the newest that can be read.
func (l *Log) Bounds() (oldest, end uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.segments.bounds()
}

// Pending returns how many bytes were appended of which no write has begun.
func (l *Log) Pending() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue.bytes
}
