package spoollog

import (
	"sort"
)

// Stats describes the content and the counters of a log.
type Stats struct {
	Counts
	Segments int
	Records  uint64
	Bytes    int64
	Limit    int64        // limit of Bytes; 0: none
	Memory   int64        // bytes that wait for a write, or for the readers
	Readers  []ReaderInfo // by name
}

// Counts are the counters of a log since it was opened.
type Counts struct {
	Torn    int64  // bytes cut from torn ends
	Damaged uint64 // unreadable records
	Dropped uint64 // records dropped because of a limit
	Written int64  // bytes written
}

// Counts returns the counters since the log was opened.
func (l *Log) Counts() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts()
}

func (l *Log) counts() Counts {
	s := l.segments
	return Counts{Torn: s.torn, Damaged: s.damaged, Dropped: l.retention.dropped, Written: s.written}
}

// Stats returns the content and the counters of the log.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Stats{Counts: l.counts(), Segments: len(l.segments.list), Records: l.from(0), Bytes: l.segments.size(),
		Limit: l.retention.Bytes, Memory: l.queue.bytes}
	for _, p := range l.readers.byName {
		s.Readers = append(s.Readers, ReaderInfo{p.name, p.low, l.from(p.low)})
	}
	sort.Slice(s.Readers, func(i, j int) bool { return s.Readers[i].Name < s.Readers[j].Name })
	return s
}

// from returns the number of records at or after offset.
func (l *Log) from(offset uint64) uint64 { return l.segments.from(offset) + l.queue.from(offset) }

// Bounds returns the offset of the oldest record, and the offset after the newest readable record.
func (l *Log) Bounds() (oldest, end uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.segments.bounds()
}

// Pending returns the number of appended bytes whose write has not begun.
func (l *Log) Pending() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue.bytes
}
