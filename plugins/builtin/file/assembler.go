package file

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// assembler joins the partial lines in the log of a container, and lines of a group, for each stream. It continues
// across rotated files.
//
// It measures in distances: bytes of content from some point on, through all files that are read one after the other. A
// position is the place of the first line that is not in a record yet, and for each lane the distance from there up to
// which its lines are in records.
type assembler struct {
	parser  logParser
	begins  *regexp.Regexp // matches the first line of a group; nil: no groups
	wait    time.Duration  // for the end of a line
	groups  time.Duration  // for more lines of a group
	held    *held
	origin  record.Metadata // of every record
	zero    int64           // distance of the beginning of the open file
	until   [lanes]int64    // distance up to which the lines of a lane were in records when reading resumed
	latest  int64           // highest of until
	pending [len(streams)]pending
	ends    bool // a stream of pending ends
	warned  bool // about a line that cannot be parsed, since reading was resumed
}

// pending is the unfinished record of a stream. A line and a group are both open if a line that may continue the group,
// or begin another one, has no end yet.
type pending struct {
	line  piece
	group piece
	grew  time.Time
	ends  bool // it becomes a record as it is
}

// piece is text that becomes a record: a line or a group, or the beginning of one.
type piece struct {
	open     bool
	place    place // before its first line
	distance int64 // of place
	first    int64 // line number, from 1
	created  int64 // Unix nanoseconds, from its first line
	text     []byte
	borrowed bool  // text shares the memory of read content
	cut      bool  // an end of a line is missing
	omitted  int64 // bytes, if it is too long; it has no text then
}

// held limits the memory of the unfinished records of a source.
type held struct {
	bytes  int
	buffer sdk.Buffer
}

// maxHeld is the maximum number of bytes of the unfinished records of a source.
const maxHeld = 4 * maxLine

// add adds n bytes. It reports whether that is too much.
func (h *held) add(n int) (tooMuch bool) {
	if h.bytes += n; h.buffer.Take(n) {
		return h.bytes > maxHeld
	}
	h.buffer.Add(n)
	return true
}

func (h *held) free(n int) {
	h.bytes -= n
	h.buffer.Add(-n)
}

// isContainer reports whether files are the logs of containers.
func (o *options) isContainer() bool { return o.format != formatLines && o.csv == nil }

// newAssembler returns an assembler for one file; nil if each line, or group, is a record as it is.
func newAssembler(o *options) *assembler {
	if !o.isContainer() {
		return nil
	}
	return &assembler{parser: logParser{format: o.format}, begins: o.groupBegin, wait: o.partialWait,
		groups: o.groupWait, held: &o.held}
}

// drop drops everything unfinished.
func (a *assembler) drop() {
	for i := range a.pending {
		a.held.free(len(a.pending[i].line.text) + len(a.pending[i].group.text))
	}
	a.pending, a.ends = [len(streams)]pending{}, false
}

// resume drops everything unfinished, and continues at p in the file at a path.
func (a *assembler) resume(path string, p *place) {
	a.drop()
	a.origin, a.warned = containerOf(path), false
	a.zero, a.until, a.latest = -p.offset, p.passed, 0
	for _, d := range a.until {
		a.latest = max(a.latest, d)
	}
}

// nextFile continues in another file, behind size bytes of the open one.
func (a *assembler) nextFile(size int64) { a.zero += size }

// isOpen reports whether a record is unfinished.
func (a *assembler) isOpen() bool {
	return a.pending[laneOut].first() != nil || a.pending[laneErr].first() != nil
}

// ending reports whether unfinished records become records next.
func (a *assembler) ending() bool { return a.ends && a.isOpen() }

// first returns the piece that began first; nil if nothing is unfinished.
func (p *pending) first() *piece {
	switch {
	case p.group.open:
		return &p.group
	case p.line.open:
		return &p.line
	}
	return nil
}

// end reports whether records are unfinished. They will not continue, and become records as they are.
func (a *assembler) end() bool {
	if !a.isOpen() {
		return false
	}
	for i := range a.pending {
		a.pending[i].ends = true
	}
	a.ends = true
	return true
}

// expire ends the unfinished records that have waited long enough. at is the latest time at which there was nothing
// to read. It reports whether any end.
func (a *assembler) expire(at time.Time) bool {
	for i := range a.pending {
		p := &a.pending[i]
		waits := at.Sub(p.grew)
		if p.line.open && waits >= a.wait || p.group.open && !p.line.open && waits >= a.groups {
			p.ends, a.ends = true, true
		}
	}
	return a.ends
}

// ended returns the next piece of a stream that ends, and its lane. It returns false if there is none.
func (a *assembler) ended() (done piece, lane int, ok bool) {
	for lane = range a.pending {
		switch p := &a.pending[lane]; {
		case !p.ends:
		case p.line.open:
			line := a.close(&p.line)
			line.cut = true
			if done, ok := a.whole(p, line); ok {
				return done, lane, true
			}
			return a.close(&p.group), lane, true
		case p.group.open:
			return a.close(&p.group), lane, true
		default:
			p.ends = false
		}
	}
	a.ends = false
	return done, lane, false
}

// take takes a line of a stream. It returns a finished record, if there is one.
func (a *assembler) take(lane int, from *piece, partial bool, read time.Time) (done piece, ok bool) {
	p := &a.pending[lane]
	p.grew = read
	switch {
	case p.line.open:
		a.add(p, &p.line, nil, from.text)
	case partial:
		a.open(p, &p.line, from)
	default:
		return a.whole(p, *from)
	}
	if partial {
		return done, false
	}
	return a.whole(p, a.close(&p.line))
}

// whole takes a whole line. It returns a finished record, if there is one.
func (a *assembler) whole(p *pending, line piece) (done piece, ok bool) {
	switch {
	case a.begins == nil, line.omitted > 0:
		return line, true
	case p.group.open && !a.begins.Match(line.text):
		p.group.cut = p.group.cut || line.cut
		a.add(p, &p.group, newline, line.text)
		return done, false
	case p.group.open:
		done, ok = a.close(&p.group), true
	}
	a.open(p, &p.group, &line)
	return done, ok
}

// open begins a piece with another one.
func (a *assembler) open(holder *pending, p, with *piece) {
	*p = *with
	p.open = true
	if a.held.add(len(p.text)) {
		holder.ends, a.ends = true, true
	}
}

// add adds text to a piece.
func (a *assembler) add(holder *pending, p *piece, separator, text []byte) {
	n := len(separator) + len(text)
	if p.omitted > 0 || len(p.text)+n > maxLine {
		a.held.free(len(p.text))
		p.omitted += int64(len(p.text) + n)
		p.text, p.borrowed = nil, false
		return
	}
	p.text, p.borrowed = append(append(p.text, separator...), text...), false
	if a.held.add(n) {
		holder.ends, a.ends = true, true
	}
}

// close ends a piece, and returns it.
func (a *assembler) close(p *piece) (done piece) {
	done, *p = *p, done
	a.held.free(len(done.text))
	return done
}

// keep copies texts that share the memory of read content. They may wait for some time, and would keep all of it.
func (a *assembler) keep() {
	for i := range a.pending {
		for _, p := range [...]*piece{&a.pending[i].line, &a.pending[i].group} {
			if p.borrowed {
				p.text, p.borrowed = bytes.Clone(p.text), false
			}
		}
	}
}

// hold moves p, the place at an offset of the open file, back to the first line that is not in a record yet.
func (a *assembler) hold(p *place, offset int64) {
	now := a.zero + offset
	if now >= a.latest && !a.isOpen() {
		return
	}
	base, passed := now, [lanes]int64{}
	for lane := range passed {
		passed[lane] = max(now, a.until[lane])
	}
	for lane := range a.pending {
		if first := a.pending[lane].first(); first != nil {
			passed[lane] = first.distance
			if first.distance < base {
				base, *p = first.distance, first.place
			}
		}
	}
	for lane := range passed {
		p.passed[lane] = passed[lane] - base
	}
}

// waiting returns the number of bytes between the first line that is not in a record yet and an offset.
func (a *assembler) waiting(offset int64) (n int64) {
	for i := range a.pending {
		if first := a.pending[i].first(); first != nil {
			n = max(n, a.zero+offset-first.distance)
		}
	}
	return n
}

// records converts up to most buffered lines of s. Their positions begin with prefix.
func (a *assembler) records(s *single, most int, prefix []byte) []record.Record {
	to := &maker{most: min(most, bytes.Count(s.buf, newline)+2), common: a.origin, more: 2, prefix: prefix}
	s.identity = headIdentity{}
	for len(to.records) < to.most {
		if a.ends {
			if done, lane, ok := a.ended(); ok {
				a.finished(s, to, lane, &done)
			}
			continue
		}
		from := place{offset: s.offset, line: s.line, inode: s.inode, switches: s.switches, before: s.before}
		line, ok := s.next()
		if ok {
			a.assemble(s, to, from, line)
		} else if !s.ends() {
			break
		}
	}
	a.keep()
	return to.records
}

// assemble takes a line that begins at a place.
func (a *assembler) assemble(s *single, to *maker, from place, line []byte) {
	l, err := a.parser.parse(line)
	if err != nil {
		l.lane = laneOther
	}
	distance := a.zero + from.offset
	if from.offset == 0 {
		from.before.add(s.head)
	}
	switch {
	case distance < a.until[l.lane]: // it is in a record
	case err != nil:
		a.refused(s, to, from.offset, line, err)
	case !l.partial && a.begins == nil && !a.pending[l.lane].line.open: // the usual line
		p := s.position()
		to.addTo(l.lane, l.created, &p, s.start, l.text)
	default:
		from.head = s.identity.hashBefore(s.head, from.offset)
		p := piece{place: from, distance: distance, first: s.start, created: l.created, text: l.text, borrowed: true}
		if done, ok := a.take(l.lane, &p, l.partial, s.grew); ok {
			a.finished(s, to, l.lane, &done)
		}
	}
}

// finished makes a record of a piece, unless it is too long.
func (a *assembler) finished(s *single, to *maker, lane int, p *piece) {
	if p.omitted > 0 {
		s.tooLong(p.first, p.place.offset, p.omitted)
		return
	}
	at := s.position()
	r := to.addTo(lane, p.created, &at, p.first, p.text)
	if p.cut {
		r.Metadata.Set(keyPartial, "true")
	}
}

// refused makes a record of a line that cannot be parsed. The line is its payload, and the metadata has the error.
func (a *assembler) refused(s *single, to *maker, offset int64, line []byte, err error) {
	format, other := s.format, "docker"
	if format == "docker" {
		other = "cri"
	}
	if format == "auto" {
		format, other = "cri or docker", "cri, docker"
	}
	err = fmt.Errorf("cannot parse line %d of %s at offset %d as %s: %w; the payload is the whole line: set format to %s "+
		"or lines, or exclude the file", s.start, s.path, offset, format, err, other)
	if !a.warned {
		a.warned = true
		s.log.Warn("line is not in the format of the log of a container, reading it as it is", "path", s.path, "line",
			s.start, "offset", offset, "err", err)
	}
	at := s.position()
	r := to.add(&at, s.start, line)
	r.Metadata.Set(keyError, err.Error())
}

// addTo makes a record of text in the lane of a stream.
func (m *maker) addTo(lane int, created int64, p *place, first int64, text []byte) *record.Record {
	r := m.add(p, first, text)
	if m.times.Cap() == 0 {
		m.times.Grow(m.most * len("1700000000000000000"))
	}
	var digits [20]byte
	at := m.times.Len()
	m.times.Write(strconv.AppendInt(digits[:0], created, 10))
	r.Metadata = append(r.Metadata, record.Field{Key: keyStream, Value: streams[lane]},
		record.Field{Key: record.KeyCreatedAt, Value: m.times.String()[at:]})
	return r
}
