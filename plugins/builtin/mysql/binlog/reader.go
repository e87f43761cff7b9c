package binlog

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/conduit-agent/conduit/plugins/peer"
)

// reader takes numbers and strings off data. After a failure it returns zeros.
type reader struct {
	data   []byte
	failed bool
	made   int64 // bytes of the decoded values of a row
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.data) {
		r.failed, r.data = true, nil
		return nil
	}
	b := r.data[:n:n]
	r.data = r.data[n:]
	return b
}

func (r *reader) rest() []byte { return r.take(len(r.data)) }

// done returns v, or an error if data was too short.
func (r *reader) done(v any) (any, error) {
	if r.failed {
		return nil, ErrCorrupt
	}
	return v, nil
}

// little returns a little-endian number of n bytes, big a big-endian one.
func (r *reader) little(n int) (v uint64) {
	for i, b := range r.take(n) {
		v |= uint64(b) << (8 * i)
	}
	return v
}

func (r *reader) big(n int) (v uint64) {
	for _, b := range r.take(n) {
		v = v<<8 | uint64(b)
	}
	return v
}

func (r *reader) uint8() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uint16() uint16 { return uint16(r.little(2)) }

func (r *reader) uint32() uint32 {
	if b := r.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// length takes a length-encoded integer.
func (r *reader) length() int {
	n := uint64(r.uint8())
	switch n {
	case 0xfc:
		n = r.little(2)
	case 0xfd:
		n = r.little(3)
	case 0xfe:
		n = r.uint64()
	case 0xfb, 0xff:
		r.failed = true
	}
	if n > maxLength {
		r.failed = true
		return 0
	}
	return int(n)
}

// maxLength bounds the lengths in an event: no event is larger.
const maxLength = 1 << 30

// text takes a string that follows its length-encoded length.
func (r *reader) text() string { return string(r.take(r.length())) }

// inflate expands the compression format of MariaDB: a byte with the size of the length, the big-endian length, and a
// zlib stream.
func inflate(data []byte) ([]byte, error) {
	r := &reader{data: data}
	head := r.uint8()
	n := r.big(int(head & 7))
	if r.failed || head&0xf0 != 0x80 || n > maxLength {
		return nil, ErrCorrupt
	}
	z, err := zlib.NewReader(bytes.NewReader(r.data))
	if err != nil {
		return nil, unexpanded(err)
	}
	return expand(z, n)
}

// A tooLargeError reports an event, a row or a value that needs more memory than the limit for a server message.
type tooLargeError struct {
	n    uint64
	most int64
}

// Error implements error.
func (e *tooLargeError) Error() string {
	return fmt.Sprintf("the decompressed data has %d bytes, more than the %d that fit into memory",
		e.n, e.most)
}

// bounded returns an error if n bytes, expanded from a message, exceed the limit for a message.
func bounded(n uint64) error {
	if most := peer.MaxMessage(); n > uint64(most) {
		return &tooLargeError{n, most}
	}
	return nil
}

// expand reads n bytes. The announced n may be wrong, so the buffer grows as bytes arrive.
func expand(z io.Reader, n uint64) ([]byte, error) {
	if err := bounded(n); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if read, err := io.Copy(&b, io.LimitReader(z, int64(n)+1)); err != nil || uint64(read) != n {
		return nil, unexpanded(err)
	}
	return b.Bytes(), nil
}

// unexpanded returns the error for data that cannot be decompressed. It never counts as a network error, whatever its
// cause.
func unexpanded(cause error) error {
	if cause == nil {
		return fmt.Errorf("cannot decompress: %w", ErrCorrupt)
	}
	return fmt.Errorf("cannot decompress: %s: %w", cause.Error(), ErrCorrupt)
}
