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

var errLineTooLong = errors.New("the line is longer than 16 MiB")

// lines cuts a file into lines, or into groups of lines. Those that next returns belong to the
// caller; the memory they lie in is not used again.
type lines struct {
	file   *content
	begins *regexp.Regexp // matches the first line of each group; nil: lines are not grouped
	offset int64          // in the file, of rest

	buf     []byte // what was read and not returned; behind it is spare capacity
	scanned int    // bytes of buf known to hold no newline; with groups, whole lines of one group
	want    int    // spare capacity for the next read
}

// next returns the next line without its newline, or false when it was not read yet.
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

// nextGroup returns the next group, whose end is known when the next one begins.
func (l *lines) nextGroup() ([]byte, bool) {
	for {
		i := bytes.IndexByte(l.buf[l.scanned:], '\n')
		if i < 0 {
			return nil, false
		}
		if start := l.scanned; start > 0 && l.begins.Match(l.buf[start:start+i]) {
			return l.take(start-1, start), true
		}
		l.scanned += i + 1
	}
}

// whole returns the whole lines of a group that may go on, or false when there are none.
func (l *lines) whole() ([]byte, bool) {
	if l.begins == nil || l.scanned == 0 {
		return nil, false
	}
	return l.take(l.scanned-1, l.scanned), true
}

// rest returns what is left as a line or group, or false when that is nothing.
func (l *lines) rest() ([]byte, bool) {
	n := len(l.buf)
	if n == 0 {
		return nil, false
	}
	return l.take(len(bytes.TrimSuffix(l.buf, []byte{'\n'})), n), true
}

// take returns the first n bytes and goes on behind skip.
func (l *lines) take(n, skip int) []byte {
	line := l.buf[:n:n]
	if l.buf = l.buf[skip:]; n >= largeRead {
		l.buf = bytes.Clone(l.buf) // or it would keep the memory of the long line
	}
	l.offset += int64(skip)
	l.scanned = 0
	return line
}

// fill reads more. It returns io.EOF when there is no more now.
func (l *lines) fill(ctx context.Context) error {
	if len(l.buf) > maxLine {
		return errLineTooLong
	}
	if err := l.grow(ctx); err != nil {
		return err
	}
	spare := l.buf[len(l.buf):cap(l.buf)]
	if len(l.buf) >= largeRead { // of a long line: little of what follows it
		spare = spare[:min(len(spare), 2*smallRead)]
	}
	n, err := l.file.ReadAt(spare, l.offset+int64(len(l.buf)))
	l.buf = l.buf[:len(l.buf)+n]
	if n == 0 {
		return err
	}
	if n == len(spare) {
		l.want = largeRead
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return err
}

// grow makes space for a read, in new memory when little is left. For a long line it waits until
// there is memory.
func (l *lines) grow(ctx context.Context) error {
	if cap(l.buf)-len(l.buf) >= smallRead/4 {
		return nil
	}
	most := sdk.BatchBytes(ctx, largeRead)
	size := min(len(l.buf)+max(min(l.want, most), smallRead, len(l.buf)), maxLine+largeRead)
	if len(l.buf) >= most {
		if err := sdk.Reserve(ctx, len(l.buf)+size); err != nil {
			return err
		}
	}
	grown := make([]byte, len(l.buf), size)
	copy(grown, l.buf)
	l.buf = grown
	return nil
}

// idle gives back memory that a quiet file does not need.
func (l *lines) idle() {
	l.want = smallRead
	if len(l.buf) == 0 && cap(l.buf) > smallRead {
		l.buf = nil
	}
}
