package spoollog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
)

// A segment is a sequence of frames. A frame is a header and a body, the encoded records:
//
//	 0  magic
//	 4  CRC32C of the segment's identity, the frame's place in the file, and the header from 8 on
//	 8  length of the body
//	12  CRC32C of the body
//	16  offset of the first record, less the segment's base
//	20  records before the first one that were not synced when the frame was written
//	24  number of records
//	26  time of writing, in Unix milliseconds (48 bits)
//
// All numbers are little-endian. The first checksum covers the location of the frame, so that a copy of a frame inside
// a record is never mistaken for a frame.
const (
	headerSize = 32
	magic      = "\xf5SPL"

	frameBytes   = 64 << 10 // a frame of this size is complete
	frameRecords = 1000
	maxBody      = 256 << 20
	readBytes    = 256 << 10 // bytes per read of a file
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// identity is the prefix of the checksum input of every frame of a segment.
type identity struct{ id, base uint64 }

// frame is a sequence of consecutive records.
type frame struct {
	first    uint64 // offset of the first record
	unsynced uint32
	count    int
	time     time.Time
	data     []byte // room for the header, then the body

	skipped int64 // bytes before the frame that belong to no frame
}

func (f *frame) end() uint64  { return f.first + uint64(f.count) }
func (f *frame) body() []byte { return f.data[headerSize:] }

// records appends the records of the frame to dst. They share memory with the frame's data.
func (f *frame) records(dst []record.Record) ([]record.Record, error) {
	return DecodeRecords(dst, f.body(), f.count)
}

// seal fills in the header of a frame that is written at pos in the segment's file.
func (s identity) seal(f *frame, pos int64) {
	h := f.data[:headerSize]
	copy(h, magic)
	binary.LittleEndian.PutUint32(h[8:], uint32(len(f.data)-headerSize))
	binary.LittleEndian.PutUint32(h[12:], crc32.Checksum(f.body(), castagnoli))
	binary.LittleEndian.PutUint32(h[16:], uint32(f.first-s.base))
	binary.LittleEndian.PutUint32(h[20:], f.unsynced)
	binary.LittleEndian.PutUint64(h[24:], uint64(f.count)|uint64(f.time.UnixMilli())<<16)
	binary.LittleEndian.PutUint32(h[4:], s.checksum(h, pos))
}

func (s identity) checksum(header []byte, pos int64) uint32 {
	var b [48]byte
	binary.LittleEndian.PutUint64(b[:], s.id)
	binary.LittleEndian.PutUint64(b[8:], s.base)
	binary.LittleEndian.PutUint64(b[16:], uint64(pos))
	copy(b[24:], header[8:headerSize])
	return crc32.Checksum(b[:], castagnoli)
}

// parse reads the frame at the beginning of b, which is at pos in the file. If b is too short, need is the total number
// of bytes required; need is 0 if there is no valid frame.
func (s identity) parse(b []byte, pos int64) (f frame, need int) {
	if len(b) < headerSize {
		return f, headerSize
	}
	if string(b[:4]) != magic || binary.LittleEndian.Uint32(b[4:]) != s.checksum(b, pos) {
		return f, 0
	}
	size := headerSize + int(binary.LittleEndian.Uint32(b[8:]))
	if size > headerSize+maxBody {
		return f, 0
	}
	if len(b) < size {
		return f, size
	}
	if crc32.Checksum(b[headerSize:size], castagnoli) != binary.LittleEndian.Uint32(b[12:]) {
		return f, 0
	}
	last := binary.LittleEndian.Uint64(b[24:])
	return frame{
		first:    s.base + uint64(binary.LittleEndian.Uint32(b[16:])),
		unsynced: binary.LittleEndian.Uint32(b[20:]),
		count:    int(last & 0xffff),
		time:     time.UnixMilli(int64(last >> 16)),
		data:     b[:size:size],
	}, size
}

// cursor reads the frames of a segment up to limit and skips damaged parts.
type cursor struct {
	identity
	file    File
	pos     int64 // position of the next frame
	limit   int64
	buf     []byte            // bytes read from pos on
	reuse   bool              // the data of a frame is valid only until the next call
	scratch []byte            // memory of buf, when reuse is set
	reserve func(n int) error // called before a frame of more than readBytes is read; nil: not called
}

// next returns the next valid frame, or io.EOF after the last one. Unless reuse is set, the frame keeps its data.
func (c *cursor) next() (frame, error) {
	start := c.pos
	for {
		f, need := c.parse(c.buf, c.pos)
		switch {
		case need > 0 && need <= len(c.buf):
			f.skipped = c.pos - start
			c.advance(need)
			return f, nil
		case need > len(c.buf) && int64(need) <= c.limit-c.pos:
			if err := c.fill(need); err != nil {
				return f, err
			}
		case c.pos >= c.limit:
			return frame{skipped: c.limit - start}, io.EOF
		default:
			c.resync()
		}
	}
}

func (c *cursor) advance(n int) {
	c.buf = c.buf[n:]
	c.pos += int64(n)
}

// fill reads at least n bytes from pos, which must exist.
func (c *cursor) fill(n int) error {
	if err := reserve(c.reserve, n); err != nil {
		return err
	}
	b := c.buffer(int(min(int64(max(n, readBytes)), c.limit-c.pos)))
	kept := copy(b, c.buf)
	m, err := c.file.ReadAt(b[kept:], c.pos+int64(kept))
	c.buf = b[:kept+m]
	if len(c.buf) >= n {
		return nil
	}
	if errors.Is(err, io.EOF) { // the file is shorter than before
		c.limit = c.pos + int64(len(c.buf))
		return nil
	}
	return err
}

// reserve calls f before the allocation of n bytes if n is large.
func reserve(f func(n int) error, n int) error {
	if f == nil || n <= readBytes {
		return nil
	}
	return f(n)
}

func (c *cursor) buffer(n int) []byte {
	if !c.reuse {
		return make([]byte, n)
	}
	if cap(c.scratch) < n {
		c.scratch = make([]byte, n)
	}
	return c.scratch[:n]
}

// resync moves to the next position where a frame may begin.
func (c *cursor) resync() {
	if len(c.buf) == 0 {
		c.pos = c.limit
		return
	}
	i := bytes.Index(c.buf[1:], []byte(magic))
	if i < 0 && c.pos+int64(len(c.buf)) >= c.limit {
		i = len(c.buf) - 1
	} else if i < 0 { // the magic may be split at the end of the buffer
		i = max(0, len(c.buf)-len(magic))
	}
	c.advance(1 + i)
}
