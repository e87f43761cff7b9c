package file

import "time"

// Shortest and longest pause before another attempt to read an unreadable file.
const (
	firstRest   = time.Second
	longestRest = time.Minute
)

// parked is the state of an unreadable file among several files.
type parked struct {
	place place         // where reading resumes; the zero place is the beginning
	rest  time.Duration // pause between two attempts
	next  time.Time     // time of the next attempt
}

func (p *parked) due() bool { return !time.Now().Before(p.next) }

// park sets the file aside because of err until retry. It keeps the read position.
func (s *single) park(err error) {
	at := &parked{rest: firstRest}
	switch {
	case s.parked != nil:
		at.place, at.rest = s.parked.place, min(2*max(s.parked.rest, firstRest/2), longestRest)
	case s.file != nil:
		at.place = s.position()
	}
	at.next = time.Now().Add(at.rest)
	if s.assembler != nil {
		s.assembler.drop()
	}
	_ = s.close() // nothing was written to it
	s.parked = at
	if s.skips.Add(s.path, err) {
		s.log.Warn("cannot read file, skipping it until it is readable", "path", s.path, "err", err)
	}
}

// retry resumes reading a parked file if it is readable now.
func (s *single) retry() {
	var err error
	if s.parked.place == (place{}) {
		_, err = s.tail.open()
	} else {
		err = s.resume(s.parked.place)
	}
	if err != nil {
		s.park(err)
		return
	}
	s.parked = nil
	if s.skips.Remove(s.path) {
		s.log.Info("reading a skipped file again", "path", s.path)
	}
}
