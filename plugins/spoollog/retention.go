package spoollog

import (
	"log/slog"
	"time"
)

// Full is the policy for records when the log is full.
type Full int

// Policies for a full log.
const (
	Block      Full = iota // new records wait until there is space
	DropOldest             // the oldest records are dropped, read or not
	DropNewest             // new records are dropped
	Refuse                 // Append returns ErrFull
)

// Limits bound the size and age of a log. Zero means no limit.
type Limits struct {
	Bytes int64
	Age   time.Duration // age of the oldest record that not all readers acknowledged
	Full  Full
}

// The minimum size of a segment, and the minimum number of segments in a full log.
const (
	minSegment   = 64 << 10
	segmentParts = 16
)

// retention enforces the limits of a log. The mutex of the log guards it.
type retention struct {
	Limits
	log      *slog.Logger
	now      func() time.Time
	segments *segments
	readers  *readers
	queue    *queue
	dropped  uint64 // records, see Counts
	reported uint64 // part of dropped that was logged
	logged   time.Time
}

// dropInterval is the minimum time between two log lines about drops, since a full log drops records with each write.
const dropInterval = 10 * time.Second

// set sets the limits, and makes segments small enough to satisfy them.
func (r *retention) set(limits Limits) {
	r.Limits = limits
	if limits.Bytes > 0 {
		r.segments.bytes = min(r.segments.bytes, max(limits.Bytes/segmentParts, minSegment))
	}
	r.segments.age = limits.Age / segmentParts
}

// makeSpace makes space for the frames if the log is full. If it cannot, it drops them, refuses them, or reports that
// they have to wait.
func (r *retention) makeSpace(frames []Frame) (dropped, wait bool, err error) {
	size, count := int64(0), uint64(0)
	for i := range frames {
		size += int64(len(frames[i].frame.data))
		count += uint64(frames[i].frame.count)
	}
	for r.full(size) {
		switch r.Full {
		case Block:
			return false, true, nil
		case Refuse:
			return false, false, ErrFull
		case DropNewest:
			r.drop(count)
			return true, false, nil
		case DropOldest:
			if !r.dropOldest() {
				return false, false, nil
			}
		}
	}
	return false, false, nil
}

// full reports whether size more bytes exceed the size limit, or the oldest records exceed the age limit.
func (r *retention) full(size int64) bool {
	if r.Limits == (Limits{}) {
		return false
	}
	if r.Age > 0 && r.segments.unread(r.readers.low(), r.now().Add(-r.Age)) {
		return true
	}
	used := r.segments.size() + r.queue.bytes
	return r.Bytes > 0 && used > 0 && used+size > r.Bytes
}

// dropOldest removes the oldest segment, and reports whether there was one.
func (r *retention) dropOldest() bool {
	s, low := r.segments.oldest(), r.readers.low()
	if s == nil || !r.segments.removeOldest() {
		return false
	}
	if low < s.end {
		r.drop(s.end - max(s.base, low))
	}
	return true
}

func (r *retention) drop(records uint64) {
	r.dropped += records
	if now := r.now(); now.Sub(r.logged) >= dropInterval {
		r.logged = now
		r.logDrops()
	}
}

// logDrops logs the number of drops since its last line.
func (r *retention) logDrops() {
	if records := r.dropped - r.reported; records > 0 {
		r.log.Warn("the spool is full: records were dropped", "which", map[Full]string{DropOldest: "oldest",
			DropNewest: "newest"}[r.Full], "records", records, "dropped", r.dropped)
	}
	r.reported = r.dropped
}

// retain removes the segments that all readers acknowledged, and reports whether there were any.
func (r *retention) retain() (removed bool) {
	low := r.readers.low()
	for s := r.segments.oldest(); s != nil && s.end <= low && s.end > s.base; s = r.segments.oldest() {
		if !r.segments.removeOldest() {
			break
		}
		removed = true
	}
	return removed
}
