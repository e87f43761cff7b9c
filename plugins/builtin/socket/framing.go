package socket

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/conduit-agent/conduit/plugins/builtin/sockets"
)

// longestFrame is the longest announced length of a frame in bytes. Announcements beyond it are mistakes.
const longestFrame = 1 << 30

// frames splits a connection into frames.
type frames struct {
	*sockets.Reader
	settings *commonSettings
	works    func() // called after each complete frame
	torn     func() // called for an incomplete frame at the end, which is discarded
}

// Next implements sockets.Framing. It skips empty frames. The rest of a connection after the last line counts if the
// connection ended in an orderly way. Every other incomplete frame does not.
func (f *frames) Next() (frame []byte, cut bool, err error) {
	for len(frame) == 0 && err == nil {
		frame, cut, err = f.next()
	}
	switch {
	case err == nil:
		f.works()
	case len(frame) > 0 && (f.settings.Framing != "lines" || !errors.Is(err, io.EOF)):
		f.torn()
		frame = nil
	}
	return frame, cut, err
}

func (f *frames) next() (frame []byte, cut bool, err error) {
	switch {
	case f.settings.Framing == "lines" && f.settings.Delimiter == "crlf":
		return f.LineCRLF()
	case f.settings.Framing == "lines":
		return f.Line(nil, delimiters[f.settings.Delimiter])
	}
	n, head, err := f.length()
	if err != nil {
		return head, false, err
	}
	if frame, cut, err = f.Body(n); err != nil {
		return append(head, frame...), false, noEOF(err)
	}
	return frame, cut, nil
}

// delimiters are the ends of lines.
var delimiters = map[string]string{"newline": "\n", "crlf": "\r\n", "nul": "\x00"}

// noEOF returns an error that is not the orderly end of a connection between two frames.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// length reads the length of a frame. It also returns the bytes read.
func (f *frames) length() (n int, head []byte, err error) {
	if f.settings.Framing == "octet-counted" {
		n, head, err = f.Count()
		if errors.Is(err, sockets.ErrCount) {
			err = fmt.Errorf("cannot read a frame: it does not begin with its length in decimal digits and a space, "+
				"but with %.20q: check framing on both sides", string(head)+f.rest())
		}
		return n, head, err
	}
	head = make([]byte, f.settings.LengthBytes)
	if read, err := f.Prefix(head); err != nil {
		return 0, head[:read], err
	}
	announced := f.settings.decode(head)
	if announced > longestFrame {
		return 0, head, fmt.Errorf("cannot read a frame: it announces %d bytes, more than %d: check framing, "+
			"length.bytes and length.order on both sides", announced, longestFrame)
	}
	return int(announced), head, nil
}

// rest returns the byte that follows.
func (f *frames) rest() string {
	c, err := f.Peek()
	if err != nil {
		return ""
	}
	return string([]byte{c})
}

// decode returns the number in a length prefix.
func (s *commonSettings) decode(prefix []byte) uint64 {
	var wide [8]byte
	if s.LengthOrder == "little-endian" {
		copy(wide[:], prefix)
		return binary.LittleEndian.Uint64(wide[:])
	}
	copy(wide[8-len(prefix):], prefix)
	return binary.BigEndian.Uint64(wide[:])
}

// encode returns the length prefix of a frame.
func (s *commonSettings) encode(n int) []byte {
	var wide [8]byte
	if s.LengthOrder == "little-endian" {
		binary.LittleEndian.PutUint64(wide[:], uint64(n))
		return wide[:s.LengthBytes]
	}
	binary.BigEndian.PutUint64(wide[:], uint64(n))
	return wide[8-s.LengthBytes:]
}

// longest returns the length of the longest frame that a length prefix can announce.
func (s *commonSettings) longest() uint64 {
	if s.LengthBytes == 8 {
		return math.MaxInt64
	}
	return 1<<(8*s.LengthBytes) - 1
}

// wrap returns a frame as it is sent over a connection.
func (s *destinationSettings) wrap(frame []byte) ([]byte, error) {
	switch s.Framing {
	case "octet-counted":
		return append(append(strconv.AppendInt(nil, int64(len(frame)), 10), ' '), frame...), nil
	case "length-prefixed":
		if uint64(len(frame)) > s.longest() {
			return nil, fmt.Errorf("cannot send the record: its frame has %d bytes, and a length of length.bytes=%d is at "+
				"most %d", len(frame), s.LengthBytes, s.longest())
		}
		return append(s.encode(len(frame)), frame...), nil
	}
	delimiter := []byte(delimiters[s.Delimiter])
	if bytes.Contains(frame, delimiter) {
		if s.InFrame == "refuse" {
			return nil, fmt.Errorf("cannot send the record: its frame contains the delimiter (%s), which would split it: "+
				"set delimiter.inFrame to space, or framing to octet-counted or length-prefixed", s.Delimiter)
		}
		frame = bytes.ReplaceAll(frame, delimiter, []byte(" "))
	}
	return append(frame, delimiter...), nil
}
