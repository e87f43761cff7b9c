package file

import (
	"bytes"
	"os"
	"slices"
	"time"
)

// resting is the state of a file that is closed, although it can be read, because only so many files are open at a
// time: it was read to its end, or waits for its turn.
type resting struct {
	place   place       // where reading resumes; the zero place is the beginning
	info    os.FileInfo // of the file when it was closed; nil: it was not open
	size    int64       // size up to which it was read
	written time.Time   // last modification before it was read to its end
	packed  bool
	left    int64     // unread bytes
	due     time.Time // since when it waits for its turn; zero: it does not
}

// compare compares the file with the file at its path now, nil if there is none. It reports whether the file must be
// opened.
func (r *resting) compare(now os.FileInfo, at time.Time) bool {
	if r.info != nil && now != nil && os.SameFile(r.info, now) {
		if now.Size() == r.size && now.ModTime().Equal(r.written) {
			return !r.due.IsZero()
		}
		r.left = now.Size()
		if !r.packed {
			r.left = max(0, now.Size()-r.place.offset)
		}
	}
	if r.due.IsZero() {
		r.due = at
	}
	return true
}

// turn opens the files that wait for their turn. If too many are open, it closes files that were read to their ends,
// beginning with those that have been quiet the longest.
func (f *follower) turn() {
	finish := f.finish.Load()
	if !f.queued && !finish {
		return
	}
	var due, idle []*single
	free := f.openFiles
	for _, one := range f.order {
		switch r := one.resting; {
		case r != nil && (!r.due.IsZero() || finish && r.left > 0):
			due = append(due, one)
		case one.file != nil:
			free--
			if one.mayRest(finish) {
				idle = append(idle, one)
			}
		}
	}
	slices.SortStableFunc(due, func(a, b *single) int { return a.resting.due.Compare(b.resting.due) })
	if n := min(len(due)-free, len(idle)); n > 0 {
		slices.SortStableFunc(idle, func(a, b *single) int { return a.grew.Compare(b.grew) })
		for _, one := range idle[:n] {
			one.rest()
		}
		free += n
	}
	f.queued = len(due) > free
	for _, one := range due[:max(0, min(free, len(due)))] {
		one.parked, one.resting = &parked{place: one.resting.place}, nil
		one.retry()
	}
}

// mayRest reports whether the open file was read to its end and can be closed. With finish, the end of a file completes
// its last line.
func (s *single) mayRest(finish bool) bool {
	return s.atEnd && !s.ended && s.gone.IsZero() && !s.long && !s.hole && s.skip == 0 && !s.isOpen() &&
		bytes.IndexByte(s.buf, '\n') < 0 && !(finish && len(s.buf) > 0)
}

// rest closes the file.
func (s *single) rest() {
	info, err := s.file.Stat()
	if err != nil {
		s.park(err)
		return
	}
	r := &resting{place: s.position(), info: info, size: s.end(), written: s.written, left: s.tail.behind()}
	if s.file.packed != nil {
		r.packed, r.size = true, s.file.packed.size
	}
	_ = s.close() // nothing was written to it
	s.resting = r
}

// isGone reports whether nothing of the file is left to read.
func (s *single) isGone() bool { return s.file == nil && s.parked == nil && s.resting == nil }

// behind returns the number of unread bytes of the file.
func (s *single) behind() int64 {
	if s.resting != nil {
		return s.resting.left
	}
	if s.assembler != nil {
		return s.tail.behind() + s.assembler.waiting(s.offset)
	}
	return s.tail.behind()
}
