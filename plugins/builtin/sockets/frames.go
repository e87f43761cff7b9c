package sockets

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
)

// Framing splits a stream into messages.
type Framing interface {
	// Next returns the next message. cut reports that it was longer than the maximum, and lacks its end. With an error
	// it returns the bytes of an incomplete message that were read before.
	Next() (message []byte, cut bool, err error)
}

// Reader reads the parts of frames. It keeps at most a maximum number of bytes of each message and skips the rest.
type Reader struct {
	r   *bufio.Reader
	max int
}

// NewReader returns a Reader that keeps at most most bytes of each message.
func NewReader(r io.Reader, most int) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, 16<<10), max: most}
}

// Peek returns the next byte without reading it.
func (f *Reader) Peek() (byte, error) {
	b, err := f.r.Peek(1)
	if err != nil {
		return 0, err
	}
	return b[0], nil
}

// ErrCount means that a stream has no decimal number at a place where a frame begins with one.
var ErrCount = errors.New("a frame does not begin with its length")

// Count reads the length of a message, in decimal digits that a space follows. With ErrCount it also returns the digits
// that it has read.
func (f *Reader) Count() (n int, begun []byte, err error) {
	const digits = 9
	for i := 0; ; i++ {
		c, err := f.r.ReadByte()
		begun = append(begun, c)
		switch {
		case err != nil:
			return 0, begun[:i], err
		case c == ' ' && i > 0:
			return n, begun, nil
		case c < '0' || c > '9' || i >= digits:
			_ = f.r.UnreadByte() // unreads the byte read last
			return 0, begun[:i], ErrCount
		}
		n = 10*n + int(c-'0')
	}
}

// Prefix fills b with the next bytes, and returns the number of bytes read. If the stream ends before the first byte,
// the error is io.EOF.
func (f *Reader) Prefix(b []byte) (int, error) { return io.ReadFull(f.r, b) }

// firstChunk is the memory in bytes for the beginning of a message whose announced length may be a lie.
const firstChunk = 64 << 10

// Body reads a message of n bytes. It allocates memory as the bytes arrive. If the stream ends before, it returns the
// bytes read so far.
func (f *Reader) Body(n int) (b []byte, cut bool, err error) {
	keep := min(n, f.max)
	for len(b) < keep {
		size := min(keep, max(2*len(b), firstChunk))
		b = slices.Grow(b, size-len(b))
		m, err := io.ReadFull(f.r, b[len(b):size])
		if b = b[:len(b)+m]; err != nil {
			return b, false, err
		}
	}
	_, err = f.r.Discard(n - keep)
	return b, n > keep, err
}

// Line reads a message, whose beginning is b, up to a byte in delimiters. If the stream ends before, it returns the
// bytes read so far.
func (f *Reader) Line(b []byte, delimiters string) (_ []byte, cut bool, err error) {
	return f.until(b, func(part []byte) (n, delimiter int) {
		if i := bytes.IndexAny(part, delimiters); i >= 0 {
			return i, 1
		}
		return len(part), 0
	})
}

// LineCRLF reads a message up to a carriage return and a newline. If the stream ends before, it returns the bytes read
// so far.
func (f *Reader) LineCRLF() (_ []byte, cut bool, err error) {
	const delimiter = "\r\n"
	return f.until(nil, func(part []byte) (n, width int) {
		if i := bytes.Index(part, []byte(delimiter)); i >= 0 {
			return i, len(delimiter)
		}
		return len(bytes.TrimSuffix(part, []byte("\r"))), 0
	})
}

// until reads a message, whose beginning is b, up to a delimiter. find returns the number of bytes before the
// delimiter, or before the beginning of one, and the width of the delimiter; 0: there is none.
func (f *Reader) until(b []byte, find func(part []byte) (n, width int)) (_ []byte, cut bool, err error) {
	keep := func(part []byte) {
		room := max(0, f.max-len(b))
		cut = cut || len(part) > room
		b = append(b, part[:min(len(part), room)]...)
	}
	for more := 1; ; {
		part, err := f.r.Peek(more)
		if err != nil {
			keep(part)
			_, _ = f.r.Discard(len(part))
			return b, cut, err
		}
		part, _ = f.r.Peek(f.r.Buffered())
		n, width := find(part)
		keep(part[:n])
		_, _ = f.r.Discard(n + width)
		if width > 0 {
			return b, cut, nil
		}
		more = len(part) - n + 1
	}
}
