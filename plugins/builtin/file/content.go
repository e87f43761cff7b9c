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

	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/zstd"
)

// content is a file to read lines from, as it is or decompressed.
type content struct {
	*os.File
	packed *unpacker // nil: as it is
}

func newContent(f *os.File, compression string) *content {
	c := &content{File: f}
	if kind := kindOf(compression, f.Name()); kind != "none" {
		c.packed = &unpacker{file: f, kind: kind}
	}
	return c
}

// kindOf returns how the file of this name is compressed.
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

// available returns what is wrong with a setting that demands a compression which this build may not have.
func available(setting, compression string) error {
	if compression != "zstd" {
		return nil
	}
	if err := zstd.Available(); err != nil {
		return sdk.SettingError{Setting: setting, Message: err.Error()}
	}
	return nil
}

// canUnpack reports whether a file with the extension of a compression can be read.
func canUnpack(compression, name string) bool { return kindOf(compression, name) != "none" }

// ReadAt reads decompressed content. What comes in order is cheapest.
func (c *content) ReadAt(b []byte, offset int64) (int, error) {
	if c.packed == nil {
		return c.File.ReadAt(b, offset)
	}
	return c.packed.readAt(b, offset)
}

// hasHole reports whether the file system reports a hole in the file between two offsets.
func (c *content) hasHole(from, to int64) bool {
	if c.packed != nil {
		return false
	}
	at, err := c.Seek(from, seekHole) // which nothing else uses: all reads have an offset
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

// complete reports whether the content has an end of its own that was reached.
func (c *content) complete() bool { return c.packed != nil && c.packed.complete }

// unpacker decompresses a file. A file that has grown since its end was reached is decompressed
// again from its beginning: that is where decompressing can begin.
type unpacker struct {
	file *os.File
	kind string

	r        io.ReadCloser // nil: at no place
	at       int64         // offset of r in the content
	size     int64         // of the file, when r began
	ended    bool          // nothing is behind r
	complete bool          // and that is no accident
}

// restPause is how long a compressed file must rest before more of it is read.
const restPause = time.Second

// cutOff reports whether the file has become shorter.
func (u *unpacker) cutOff(info os.FileInfo) bool { return info.Size() < u.size }

// behind returns how many bytes were not read: all, until the end is reached.
func (u *unpacker) behind(info os.FileInfo) int64 {
	if u.ended {
		return info.Size() - u.size
	}
	return info.Size()
}

func (u *unpacker) readAt(b []byte, offset int64) (int, error) {
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

// end notes whether err is the end of the content, and returns io.EOF if it is.
func (u *unpacker) end(err error) error {
	short := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	if !short {
		return err
	}
	u.ended = true
	if u.r != nil {
		_, err = u.r.Read(make([]byte, 1)) // the end of the content, or the cause of a short read, again
		u.complete = errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF)
	}
	return io.EOF
}

// grown reports whether the file has another size, and its writer pauses.
func (u *unpacker) grown() bool {
	info, err := u.file.Stat()
	return err == nil && info.Size() != u.size && time.Since(info.ModTime()) >= restPause
}

// seek decompresses up to the offset.
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
	raw := bufio.NewReaderSize(io.NewSectionReader(u.file, 0, math.MaxInt64), smallRead)
	if u.kind == "gzip" {
		r, err := gzip.NewReader(raw)
		if err == nil {
			u.r = r
		}
		return err
	}
	const memory = 128 << 20 // of a frame, as much as zstd makes without --ultra
	r, err := zstd.NewReader(raw, memory)
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
