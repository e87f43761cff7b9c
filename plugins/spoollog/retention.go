package spoollog

import (
	"math"
	"time"
)

// Full says what becomes of records when the log is full.
type Full int

// What becomes of them.
const (
	Block      Full = iota // they wait until there is room
	DropOldest             // the oldest make room, read or not
	DropNewest             // they are dropped
)

// Limits bound what a log keeps. Zero is no bound.
type Limits struct {
	Bytes int64
	Age   time.Duration // of the oldest record that not all readers acknowledged
	Full  Full
}

// the smallest segments, and how many there are at least in a log that is full.
const (
	leastSegment = 64 << 10
	segmentParts = 16
)

// SetLimits sets the limits.
func (l *Log) SetLimits(limits Limits) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limits = limits
	if limits.Bytes > 0 {
		l.segmentBytes = min(l.segmentBytes, max(limits.Bytes/segmentParts, leastSegment))
	}
	l.notify()
}

// segmentSize is the size at which the active segment is closed at this time: any when it
// is so old that its records could not be removed in time.
func (l *Log) segmentSize(now time.Time) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.limits.Age > 0 && now.Sub(l.active.oldest) >= l.limits.Age/segmentParts {
		return 1
	}
	return l.segmentBytes
}

// makeRoom makes room for the frames if the log is full. When it cannot it drops them, or returns what
// to wait for.
func (l *Log) makeRoom(frames []Frame) (dropped bool, wait <-chan struct{}) {
	size, count := int64(0), uint64(0)
	for i := range frames {
		size += int64(len(frames[i].frame.data))
		count += uint64(frames[i].frame.count)
	}
	for l.full(size) {
		switch l.limits.Full {
		case Block:
			return false, l.changed
		case DropNewest:
			l.drop(count, "newest")
			return true, nil
		case DropOldest:
			if !l.dropOldest() {
				return false, nil
			}
		}
	}
	return false, nil
}

// full reports whether size bytes more are too many, or what there is is too old.
func (l *Log) full(size int64) bool {
	if l.limits == (Limits{}) {
		return false
	}
	low, used := l.low(), int64(0)
	for _, s := range l.segments {
		used += s.size
		if l.limits.Age > 0 && s.end > low && s.end > s.base && l.now().Sub(s.newest) > l.limits.Age {
			return true
		}
	}
	used += l.held
	return l.limits.Bytes > 0 && used > 0 && used+size > l.limits.Bytes
}

// dropOldest removes the oldest segment, and reports whether there was one to remove: the
// last one stays, which holds the identity of the log and the offsets that were given.
func (l *Log) dropOldest() bool {
	if len(l.segments) <= 1 || l.segments[0] == l.active {
		return false
	}
	s, low := l.segments[0], l.low()
	if !l.removeFile(s) {
		return false
	}
	l.segments = l.segments[1:]
	if low < s.end {
		l.drop(s.end-max(s.base, low), "oldest")
	}
	return true
}

func (l *Log) drop(records uint64, which string) {
	if records == 0 {
		return
	}
	l.counts.Dropped += records
	l.log.Warn("the spool is full: records were dropped", "which", which, "records", records, "dropped", l.counts.Dropped)
}

// low returns the offset before which all readers acknowledged all, 0 when there is no reader.
func (l *Log) low() uint64 {
	if len(l.readers) == 0 {
		return 0
	}
	low := uint64(math.MaxUint64)
	for _, r := range l.readers {
		low = min(low, r.low)
	}
	return low
}

// retain removes the segments that all readers acknowledged, and reports whether there were any.
func (l *Log) retain() (removed bool) {
	low := l.low()
	for len(l.segments) > 0 {
		s := l.segments[0]
		if s == l.active || s.end > low || s.end == s.base || len(l.segments) == 1 {
			break // the last one stays, as in dropOldest
		}
		if !l.removeFile(s) {
			break
		}
		l.segments = l.segments[1:]
		removed = true
	}
	return removed
}

// removeFile removes the file of a segment.
func (l *Log) removeFile(s *segment) bool {
	if err := l.fs.Remove(s.path); err != nil {
		l.log.Warn("cannot remove a file of the spool", "file", s.path, "err", err)
		return false
	}
	s.removed = true
	return true
}
