package file

import (
	"bytes"
	"hash/crc32"
	"hash/fnv"
	"math"
	"net/url"
	"strconv"
	"strings"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// place is a place in a file. Its text form, the position of a record, is
//
//	offset ";" line ";" inode ";" head ";" switches ";" length ";" sum ";" stdout "," stderr "," other
//
// with inode, head and sum in hexadecimal and the rest in decimal. The last field is only there if it is not zero. The
// two before it are optional, too, and a position may also be the offset alone.
type place struct {
	offset   int64  // offset after the record; in the log of a container, of the first line that is not in a record
	line     int64  // number of the line, from 1
	inode    uint64 // inode of the file; 0 if unknown
	head     uint64 // hash of the first headBytes of the file, or of the bytes before offset
	switches int64  // number of earlier files, or earlier contents of the file
	before   window // content before offset; if offset is 0 and passed is not, content behind it
	// In the log of a container: numbers of bytes behind offset, also in later files, up to which the lines of each lane
	// are in records.
	passed [lanes]int64
}

// isKnown reports whether content identifies the place.
func (p *place) isKnown() bool { return p.offset > 0 || p.before.length > 0 }

// isBegun reports whether something before or behind the place is in records.
func (p *place) isBegun() bool { return p.offset > 0 || p.passed != [lanes]int64{} }

// window identifies the content before a place. The beginning alone does not: it may be a header that every new content
// of the file shares.
type window struct {
	length int64
	sum    uint32 // CRC-32C
}

// addLines adds lines, like add for one after the other.
func (w *window) addLines(text []byte) {
	for len(text) > 0 {
		if w.length >= windowBytes {
			*w = window{}
		}
		n := len(text)
		if left := int(windowBytes - w.length); left < n { // the window ends with the line that fills it
			n = left + bytes.IndexByte(text[left-1:], '\n')
		}
		w.length += int64(n)
		w.sum = crc32.Update(w.sum, castagnoli, text[:n])
		text = text[n:]
	}
}

// windowBytes is the length at which a new window begins.
const windowBytes = 64 << 10

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// add adds the next bytes.
func (w *window) add(b []byte) {
	if w.length >= windowBytes {
		*w = window{}
	}
	w.length += int64(len(b))
	w.sum = crc32.Update(w.sum, castagnoli, b)
}

// headBytes is the length of the beginning that identifies a file.
const headBytes = 256

func notPosition(pos record.Position) error { return sdk.CannotResume(pos, "a position of file") }

// parsePosition parses a position in one file.
func parsePosition(pos record.Position) (place, error) {
	var p place
	var err error
	fields := strings.Split(string(pos), ";")
	if len(fields) != 1 && len(fields) != 5 && len(fields) != 7 && len(fields) != 8 {
		return p, notPosition(pos)
	}
	number := func(s string, base int) (n int64) {
		u, e := strconv.ParseUint(s, base, 64)
		if e == nil && base == 10 && int64(u) < 0 {
			e = strconv.ErrRange
		}
		if e != nil {
			err = notPosition(pos)
		}
		return int64(u)
	}
	p.offset = number(fields[0], 10)
	if len(fields) >= 5 {
		p.line = number(fields[1], 10)
		p.inode = uint64(number(fields[2], 16))
		p.head = uint64(number(fields[3], 16))
		p.switches = number(fields[4], 10)
	}
	if len(fields) == 8 {
		passed := strings.Split(fields[7], ",")
		if len(passed) != lanes {
			return p, notPosition(pos)
		}
		for i, text := range passed {
			p.passed[i] = number(text, 10)
		}
	}
	if len(fields) >= 7 {
		sum := uint64(number(fields[6], 16))
		p.before = window{number(fields[5], 10), uint32(sum)}
		behind := p.offset == 0 && p.passed != [lanes]int64{}
		if sum > math.MaxUint32 || p.before.length > p.offset && !behind {
			err = notPosition(pos)
		}
	}
	return p, err
}

// parsePlaces parses a position in several files: for each file its path, "=" and its place, separated by spaces. Paths
// are escaped as in URLs. It returns nil for a position in one file. others reports that the places in the other files
// are in the ledger.
func parsePlaces(pos record.Position) (places map[string]place, others bool, err error) {
	text, others := strings.CutPrefix(string(pos), inLedger)
	if !others && !strings.Contains(text, "=") {
		return nil, false, nil
	}
	places = map[string]place{}
	for entry := range strings.SplitSeq(text, " ") {
		i := max(0, strings.LastIndexByte(entry, '='))
		path, err := url.PathUnescape(entry[:i])
		if err != nil || path == "" {
			return nil, others, notPosition(pos)
		}
		if places[path], err = parsePosition(record.Position(entry[i+1:])); err != nil {
			return nil, others, err
		}
	}
	return places, others, nil
}

// append appends the text form of p.
func (p *place) append(dst []byte) []byte {
	dst = append(strconv.AppendInt(dst, p.offset, 10), ';')
	dst = p.before.append(p.appendIdentity(strconv.AppendInt(dst, p.line, 10)))
	if p.passed != [lanes]int64{} {
		separator := byte(';')
		for _, n := range p.passed {
			dst = strconv.AppendInt(append(dst, separator), n, 10)
			separator = ','
		}
	}
	return dst
}

// append appends the last two fields of a position.
func (w *window) append(dst []byte) []byte {
	dst = strconv.AppendInt(append(dst, ';'), w.length, 10)
	return strconv.AppendUint(append(dst, ';'), uint64(w.sum), 16)
}

// appendPath appends an escaped path and "=", as parsePlaces expects before a place.
func appendPath(dst []byte, path string) []byte {
	return append(append(dst, escapedPath(path)...), '=')
}

func escapedPath(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	return strings.Join(parts, "/")
}

// appendIdentity appends the fields of a position between the line and the window.
func (p *place) appendIdentity(dst []byte) []byte {
	dst = append(dst, ';')
	dst = strconv.AppendUint(dst, p.inode, 16)
	dst = append(dst, ';')
	dst = strconv.AppendUint(dst, p.head, 16)
	dst = append(dst, ';')
	return strconv.AppendInt(dst, p.switches, 10)
}

// headHash returns the hash that identifies a file in a position at offset. head holds the first bytes of the file.
func headHash(head []byte, offset int64) uint64 {
	h := fnv.New64a()
	h.Write(head[:min(int64(len(head)), offset)])
	return h.Sum64()
}
