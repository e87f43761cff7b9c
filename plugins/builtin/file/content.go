package file

import (
	"bufio"
	"compress/gzip"
	"errors"
	"io"
	"math"
	"os"
	"strings"
	"time"
)

// content is a file with lines, plain or decompressed.
type content struct {
	*os.File
	packed *unpacker // nil: plain
}

func newContent(f *os.File, compression string, z Zstd) *content {
	c := &content{File: f}
	if kind := kindOf(compression, f.Name()); kind != "none" {
		c.packed = &unpacker{file: f, kind: kind, zstd: z}
	}
	return c
}

// kindOf returns the compression of the file with this name.
func kindOf(compression, name string) string {
	switch {
	case compression != "auto":
		return compression
	case strings.HasSuffix(name, ".gz"):
		return "gzip"
	case strings.HasSuffix(name, ".zst"):
		return "zstd"
	}
	return "none"
}

// canUnpack reports whether the source can read a file with the extension of a compression.
func canUnpack(compression, name string) bool { return kindOf(compression, name) != "none" }

// ReadAt reads the decompressed content. Sequential reads are the cheapest.
func (c *content) ReadAt(b []byte, offset int64) (int, error) {
	if c.packed == nil {
		return c.File.ReadAt(b, offset)
	}
	return c.packed.readAt(b, offset)
}

// hasHole reports whether the file system has a hole in the file between two offsets.
func (c *content) hasHole(from, to int64) bool {
	if c.packed != nil {
		return false
	}
	at, err := c.Seek(from, seekHole) // all reads have an explicit offset, so the seek does not disturb them
	return err == nil && at < to
}

// data returns the offset of the first data at or after an offset. It returns the offset itself if the file system does
// not support this.
func (c *content) data(from int64) int64 {
	if c.packed != nil {
		return from
	}
	at, err := c.Seek(from, seekData)
	if err != nil {
		return from
	}
	return at
}

// Close closes the file.
func (c *content) Close() error {
	if c.packed != nil {
		c.packed.close()
	}
	return c.File.Close()
}

// complete reports whether the compressed content was read to its proper end.
func (c *content) complete() bool { return c.packed != nil && c.packed.complete }

// unpacker decompresses a file. If the file has grown after its end was reached, the unpacker restarts at the
// beginning, the only possible start of decompression.
type unpacker struct {
	file *os.File
	kind string
	zstd Zstd

	r        io.ReadCloser // nil: not decompressing
	at       int64         // offset of r in the content
	size     int64         // size of the file when r was created
	ended    bool          // r has reached its end
	complete bool          // the end is the proper end of the content
}

// restPause is the minimum time since the last write to a compressed file before it is read further.
const restPause = time.Second

// cutOff reports whether the file has become shorter.
func (u *unpacker) cutOff(info os.FileInfo) bool { return info.Size() < u.size }

// behind returns the number of unread bytes of the file. Until the end is reached, all bytes count as unread.
func (u *unpacker) behind(info os.FileInfo) int64 {
	if u.ended {
		return info.Size() - u.size
	}
	return info.Size()
}

// leftOut is the offset in a compressed file that is left out as a whole. Nothing is read there.
const leftOut = math.MaxInt64

func (u *unpacker) readAt(b []byte, offset int64) (int, error) {
	if offset == leftOut {
		info, err := u.file.Stat()
		if err != nil {
			return 0, err
		}
		u.close()
		u.size, u.ended, u.complete = info.Size(), true, true
		return 0, io.EOF
	}
	if u.ended && offset >= u.at && !u.grown() {
		return 0, io.EOF
	}
	if u.r == nil || u.ended || offset != u.at {
		if err := u.seek(offset); err != nil {
			return 0, u.end(err)
		}
	}
	n, err := io.ReadFull(u.r, b)
	u.at += int64(n)
	return n, u.end(err)
}

// end returns io.EOF if err means the end of the content, and records whether the content is complete.
func (u *unpacker) end(err error) error {
	short := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	if !short {
		return err
	}
	u.ended = true
	if u.r != nil {
		_, err = u.r.Read(make([]byte, 1)) // repeats the end of the content, or the cause of a short read
		u.complete = errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF)
	}
	return io.EOF
}

// grown reports whether the size of the file has changed and its writer has paused.
func (u *unpacker) grown() bool {
	info, err := u.file.Stat()
	return err == nil && info.Size() != u.size && time.Since(info.ModTime()) >= restPause
}

// seek decompresses and discards the content before the offset.
func (u *unpacker) seek(offset int64) error {
	if u.r == nil || u.ended || offset < u.at {
		if err := u.begin(); err != nil {
			return err
		}
	}
	n, err := io.CopyN(io.Discard, u.r, offset-u.at)
	u.at += n
	return err
}

func (u *unpacker) begin() (err error) {
	u.close()
	info, err := u.file.Stat()
	if err != nil {
		return err
	}
	u.at, u.size, u.ended, u.complete = 0, info.Size(), false, false
	return u.open(bufio.NewReaderSize(io.NewSectionReader(u.file, 0, math.MaxInt64), smallRead))
}

// open begins to decompress raw.
func (u *unpacker) open(raw io.Reader) error {
	if u.kind == "gzip" {
		r, err := gzip.NewReader(raw)
		if err == nil {
			u.r = r
		}
		return err
	}
	if u.zstd == nil {
		return errNoZstd
	}
	const memory = 128 << 20 // memory limit of a frame, as large as zstd needs without --ultra
	r, err := u.zstd.NewReader(raw, memory)
	if err == nil {
		u.r = r
	}
	return err
}

func (u *unpacker) close() {
	if u.r != nil {
		_ = u.r.Close()
		u.r = nil
	}
}
