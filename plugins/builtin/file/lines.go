package file

import (
	"bytes"
	"context"
	"errors"
	"io"
	"regexp"

	"github.com/conduit-agent/conduit/plugins/sdk"
)

const (
	smallRead = 16 << 10 // for a file that grows slowly
	largeRead = 256 << 10
	maxLine   = 16 << 20
)

// lines splits a file into lines, or into groups of lines. The caller owns the lines that next returns; their memory is
// not reused. A line or group of more than maxLine bytes is omitted: next returns nil instead, and omitted has its
// size.
type lines struct {
	file   *content
	begins *regexp.Regexp // matches the first line of each group; nil: no groups
	offset int64          // offset of the next line in the file
	before window         // content before offset

	memory  *memory // of buf; nil: it is not reused
	buf     []byte  // read and not yet returned; has spare capacity at its end
	skip    int64   // omitted bytes between offset and buf
	scanned int     // bytes of buf known to hold no newline; with groups, whole lines of a group
	want    int     // spare capacity for the next read
	blocks  bool    // the last lines were returned as a block
	short   bool    // the last read reached the end of the file

	hole     bool    // the omitted bytes are a hole
	long     bool    // the omitted bytes belong to a line or group that is too long
	inLine   bool    // buf begins in the middle of a line of the group
	newlines int64   // newlines in the omitted part of the group
	omitted  omitted // size of the last returned line or group, if it was omitted; zero otherwise
}

// omitted is the size of a line or group that is too long.
type omitted struct {
	bytes int64 // including the newline
	lines int64
}

// end returns the offset after the bytes that were read.
func (l *lines) end() int64 { return l.offset + l.skip + int64(len(l.buf)) }

// next returns the next line without its newline, or false if it is not complete yet.
func (l *lines) next() ([]byte, bool) {
	if l.begins != nil {
		return l.nextGroup()
	}
	i := bytes.IndexByte(l.buf[l.scanned:], '\n')
	if i < 0 {
		l.scanned = len(l.buf)
		return nil, false
	}
	i += l.scanned
	return l.take(i, i+1), true
}

// nextGroup returns the next group. A group is complete when the next one begins.
func (l *lines) nextGroup() ([]byte, bool) {
	for {
		i := bytes.IndexByte(l.buf[l.scanned:], '\n')
		if i < 0 {
			return nil, false
		}
		start := l.scanned
		if (start > 0 || l.long) && !l.inLine && l.begins.Match(l.buf[start:start+i]) {
			return l.take(max(0, start-1), start), true
		}
		l.scanned += i + 1
		l.inLine = false
	}
}

// whole returns the whole lines of an unfinished group, or false if there are none.
func (l *lines) whole() ([]byte, bool) {
	if l.begins == nil || l.scanned == 0 && !(l.long && !l.inLine) {
		return nil, false
	}
	return l.take(max(0, l.scanned-1), l.scanned), true
}

// rest returns the remaining bytes as a line or group, or false if there are none.
func (l *lines) rest() ([]byte, bool) {
	n := len(l.buf)
	if n == 0 && !l.long {
		return nil, false
	}
	return l.take(len(bytes.TrimSuffix(l.buf, []byte{'\n'})), n), true
}

// take returns the first n bytes, and advances by skip bytes.
func (l *lines) take(n, skip int) []byte {
	l.memory, l.blocks = nil, false // the caller may keep the line
	line := l.buf[:n:n]
	if l.offset == 0 && l.skip == 0 {
		line = bytes.TrimPrefix(line, byteOrderMark) // it is not text
	}
	l.omitted = omitted{}
	if l.skip > 0 {
		l.before = window{}
	} else {
		l.before.add(l.buf[:skip])
	}
	if l.long || n > maxLine {
		whole := l.buf[:skip]
		l.newlines += int64(bytes.Count(whole, []byte{'\n'}))
		if !bytes.HasSuffix(whole, []byte{'\n'}) && !(len(whole) == 0 && l.begins != nil && !l.inLine) {
			l.newlines++ // the last line has no newline
		}
		l.omitted, line = omitted{l.skip + int64(skip), l.newlines}, nil
	}
	if l.buf = l.buf[skip:]; n >= largeRead {
		l.buf = bytes.Clone(l.buf) // releases the memory of the long line
	}
	l.offset += l.skip + int64(skip)
	l.skip, l.newlines, l.scanned, l.long, l.inLine = 0, 0, 0, false, false
	return line
}

// leaveOut drops the bytes read of a line or group that is too long. It keeps the beginning of the last line of a
// group, since the next group may begin with that line, unless the line itself is too long.
func (l *lines) leaveOut() {
	n := l.scanned
	if l.begins == nil || n == 0 {
		n = len(l.buf)
		l.inLine = true
	}
	l.newlines += int64(bytes.Count(l.buf[:n], []byte{'\n'}))
	l.skip += int64(n)
	l.buf, l.scanned, l.long = bytes.Clone(l.buf[n:]), 0, true
}

// NUL bytes count as a hole, whatever the file system reports, if there are at least smallHole at the beginning of a
// file, or at least largeHole at the beginning of any line. Fewer may be text in UTF-16.
const (
	smallHole = 16
	largeHole = 64 << 10
)

// leaveHole skips a hole of NUL bytes at the beginning of a line. It returns the size of the hole when the hole ends,
// and 0 before or if there is no hole.
func (l *lines) leaveHole() (n int64) {
	if l.long || l.scanned > 0 && l.begins != nil || !l.hole && (len(l.buf) == 0 || l.buf[0] != 0) {
		return 0
	}
	nul := len(l.buf) - len(bytes.TrimLeft(l.buf, "\x00"))
	if !l.hole && !(l.offset == 0 && nul >= smallHole) && nul < largeHole &&
		!l.file.hasHole(l.offset, l.offset+int64(nul)) {
		return 0
	}
	l.hole = true
	l.skip += int64(nul)
	l.buf, l.scanned = l.buf[nul:], 0
	if len(l.buf) == 0 {
		l.skip = max(l.skip, l.file.data(l.end())-l.offset)
		return 0
	}
	n = l.skip
	l.offset, l.skip, l.hole, l.before = l.offset+n, 0, false, window{}
	return n
}

// fill reads more bytes. It returns io.EOF if there are none at the moment.
func (l *lines) fill(ctx context.Context) error {
	if len(l.buf) > maxLine || l.long && len(l.buf) >= largeRead {
		l.leaveOut()
	}
	if err := l.grow(ctx); err != nil {
		return err
	}
	spare := l.buf[len(l.buf):cap(l.buf)]
	if len(l.buf) >= largeRead { // in a long line: read little beyond its end
		spare = spare[:min(len(spare), 2*smallRead)]
	}
	n, err := l.file.ReadAt(spare, l.end())
	l.buf = l.buf[:len(l.buf)+n]
	if n == 0 {
		return err
	}
	l.short = errors.Is(err, io.EOF)
	switch {
	case n == len(spare):
		l.want = largeRead
	case n < smallRead:
		l.want = smallRead
	}
	return nil // the next read returns the error again
}

// grow makes space for a read, in new memory when little is left, or much more than needed. For a long line it waits
// until memory is available.
func (l *lines) grow(ctx context.Context) error {
	spare := cap(l.buf) - len(l.buf)
	tooLarge := l.want == smallRead && len(l.buf) < smallRead && spare > 2*smallRead // the file grows slowly now
	if spare >= smallRead/4 && !tooLarge {
		return nil
	}
	most := sdk.BatchBytes(ctx, largeRead)
	size := min(len(l.buf)+max(min(l.want, most), smallRead, len(l.buf)), maxLine+largeRead)
	if len(l.buf) >= most {
		if err := sdk.Reserve(ctx, len(l.buf)+size); err != nil {
			return err
		}
	}
	var m *memory
	var grown []byte
	if l.blocks && len(l.buf) <= largeRead/2 && min(l.want, most) == largeRead {
		m = newMemory()
		grown = m.buf[:len(l.buf)]
	} else {
		grown = make([]byte, len(l.buf), size)
	}
	copy(grown, l.buf)
	l.memory.release()
	l.buf, l.memory = grown, m
	return nil
}

// idle releases memory that a quiet file does not need.
func (l *lines) idle() {
	l.want = smallRead
	if len(l.buf) == 0 && cap(l.buf) > smallRead {
		l.memory.release()
		l.buf, l.memory = nil, nil
	}
}
