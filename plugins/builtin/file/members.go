package file

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// A compressed file of a destination consists of members: of gzip, or frames of Zstandard. Every write is a complete
// member, so that acknowledged records can be decompressed whatever happens later. The header of a member has its size,
// in a field that other programs skip. So the end of the last complete member is found from the end of the file.

// memberKind is a way to compress members.
type memberKind struct {
	name      string
	extension string
	signature []byte // beginning of a member; its size in bytes follows, in 8 bytes, the lowest first
}

var memberKinds = map[string]*memberKind{
	"gzip": {"gzip", ".gz", []byte{0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 0xff, 12, 0, 'C', 'd', 8, 0}},
	"zstd": {"zstd", ".zst", []byte{0x5c, 0x2a, 0x4d, 0x18, 8, 0, 0, 0}}, // a frame that is skipped
}

const sizeBytes = 8

// packer makes members.
type packer struct {
	*memberKind
	zstd  Zstd
	gzip  *gzip.Writer
	frame func(content []byte) []byte
	buf   bytes.Buffer
}

// newPacker returns nil without compression.
func newPacker(compression string, z Zstd) (*packer, error) {
	kind := memberKinds[compression]
	if kind == nil {
		return nil, nil
	}
	p := &packer{memberKind: kind, zstd: z}
	if kind.name == "gzip" {
		p.gzip = gzip.NewWriter(nil)
		return p, nil
	}
	frame, err := z.NewFramer()
	p.frame = frame
	return p, err
}

// pack returns a member with the text. It is valid until the next call.
func (p *packer) pack(text []byte) ([]byte, error) {
	if p.buf.Cap() > keepBytes {
		p.buf = bytes.Buffer{}
	}
	p.buf.Reset()
	if p.gzip != nil {
		p.gzip.Reset(&p.buf)
		p.gzip.Extra = append(p.signature[12:16:16], make([]byte, sizeBytes)...)
		_, err := p.gzip.Write(text)
		if err = errors.Join(err, p.gzip.Close()); err != nil {
			return nil, fmt.Errorf("cannot compress: %w", err)
		}
	} else {
		p.buf.Write(p.signature)
		p.buf.Write(make([]byte, sizeBytes))
		p.buf.Write(p.frame(text))
	}
	b := p.buf.Bytes()
	binary.LittleEndian.PutUint64(b[len(p.signature):], uint64(len(b)))
	return b, nil
}

// errForeign reports that a file does not end with a member of this package, nor with complete data of another program.
var errForeign = errors.New("its compressed data is incomplete, and another program has written it: " +
	"rename or remove it")

// whole returns the size of a file without an incomplete member at its end.
func (p *packer) whole(f *os.File, size int64) (int64, error) {
	const chunk = 64 << 10
	header := int64(len(p.signature)) + sizeBytes
	b := make([]byte, chunk+header)
	for end := size; end > 0; {
		from := max(0, end-chunk)
		n := min(end-from+header-1, size-from) // a header may begin before end, and end behind it
		if _, err := f.ReadAt(b[:n], from); err != nil {
			return 0, err
		}
		for at := n; ; {
			if at = int64(bytes.LastIndex(b[:at], p.signature)); at < 0 {
				break
			}
			if at+header > n {
				continue
			}
			length := int64(binary.LittleEndian.Uint64(b[at+int64(len(p.signature)):]))
			if length >= header && length <= size-from-at && p.isMember(io.NewSectionReader(f, from+at, length)) {
				return from + at + length, nil
			}
		}
		end = from
	}
	if n := min(size, int64(len(p.signature))); n > 0 {
		if _, err := f.ReadAt(b[:n], 0); err != nil {
			return 0, err
		}
		if bytes.HasPrefix(p.signature, b[:n]) { // the first member is incomplete
			return 0, nil
		}
	}
	if size > 0 && !p.isComplete(io.NewSectionReader(f, 0, size)) {
		return 0, errForeign
	}
	return size, nil
}

// isMember reports whether r has one complete member, and nothing behind it.
func (p *packer) isMember(r io.Reader) bool {
	if p.gzip == nil {
		return p.isComplete(r) // a frame has its end, and the size is right
	}
	b := bufio.NewReader(r)
	z, err := gzip.NewReader(b)
	if err != nil {
		return false
	}
	z.Multistream(false)
	if _, err := io.Copy(io.Discard, z); err != nil {
		return false
	}
	_, err = b.ReadByte()
	return errors.Is(err, io.EOF)
}

// isComplete reports whether r can be decompressed to its end.
func (p *packer) isComplete(r io.Reader) bool {
	u := unpacker{kind: p.name, zstd: p.zstd}
	if u.open(r) != nil {
		return false
	}
	defer u.close()
	_, err := io.Copy(io.Discard, u.r)
	return err == nil
}

// repair cuts off an incomplete member at the end of an opened file, whose records were not acknowledged.
func (o *output) repair(f *os.File, info os.FileInfo) (os.FileInfo, error) {
	if !info.Mode().IsRegular() || info.Size() == 0 {
		return info, nil
	}
	r, err := os.Open(f.Name())
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if same, err := r.Stat(); err != nil || !os.SameFile(same, info) {
		return nil, errors.Join(err, fmt.Errorf("%s was replaced meanwhile", f.Name()))
	}
	end, err := o.packer.whole(r, info.Size())
	if err != nil {
		return nil, fmt.Errorf("cannot continue %s: %w", f.Name(), err)
	}
	if end == info.Size() {
		return info, nil
	}
	o.archive.log.Warn("file ends with incomplete compressed data, as after a kill: cutting it off", "path", o.path,
		"bytes", info.Size()-end)
	if err := f.Truncate(end); err != nil {
		return nil, err
	}
	return f.Stat()
}
