package s3

import (
	"encoding/binary"
	"errors"
)

const (
	parts = 4  // each hash is in a cell of each
	width = 10 // cells of a part
)

// sketch is a set of hashes in constant space that can list its difference to a known set: an invertible Bloom lookup
// table. The hashes must be evenly distributed. The zero sketch is empty.
type sketch struct{ cells [parts * width]sketchCell }

// sketchCell sums up the hashes in the cell.
type sketchCell struct {
	count int64
	xor   uint64 // XOR of the hashes
	check uint32 // XOR of their checksums
}

// Add adds a hash that is not in the set.
func (s *sketch) Add(hash uint64) { s.change(hash, 1) }

// Remove removes a hash that is in the set.
func (s *sketch) Remove(hash uint64) { s.change(hash, -1) }

func (s *sketch) change(hash uint64, by int64) {
	for part := range uint64(parts) {
		c := &s.cells[part*width+mixBits(hash+part)%width]
		c.count += by
		c.xor ^= hash
		c.check ^= sketchCheck(hash)
	}
}

// Extra returns the hashes that are not in the set. ok is false if the two differ by too many hashes: up to 16 nearly
// always work.
func (s *sketch) Extra(hashes []uint64) (extra []uint64, ok bool) {
	rest := *s
	for _, h := range hashes {
		rest.Remove(h)
	}
	for range rest.cells { // each hash found leaves a cell empty
		hash, count := rest.single()
		switch count {
		case 0:
			return extra, rest == sketch{}
		case -1:
			extra = append(extra, hash)
		}
		rest.change(hash, -count)
	}
	return extra, rest == sketch{}
}

// single returns the only hash of a cell, with count 1 if it was added and -1 if it was removed without being in the
// set. count is 0 if no cell has a single hash.
func (s *sketch) single() (hash uint64, count int64) {
	for i := range s.cells {
		if c := &s.cells[i]; (c.count == 1 || c.count == -1) && c.check == sketchCheck(c.xor) {
			return c.xor, c.count
		}
	}
	return 0, 0
}

// mixBits is the finalizer of SplitMix64.
func mixBits(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func sketchCheck(hash uint64) uint32 { return uint32(mixBits(^hash) >> 32) }

// Bytes returns the encoded set, and nothing for an empty set.
func (s *sketch) Bytes() (text []byte) {
	if *s == (sketch{}) {
		return nil
	}
	for _, c := range s.cells {
		text = binary.AppendUvarint(text, uint64(c.count))
		if c.count != 0 {
			text = binary.BigEndian.AppendUint64(text, c.xor)
			text = binary.BigEndian.AppendUint32(text, c.check)
		}
	}
	return text
}

var errSketch = errors.New("that is no set of hashes")

// parseSketch returns the set that Bytes encoded.
func parseSketch(text []byte) (s sketch, err error) {
	if len(text) == 0 {
		return s, nil
	}
	for i := range s.cells {
		count, n := binary.Uvarint(text)
		if n <= 0 || count > 0 && len(text) < n+12 {
			return sketch{}, errSketch
		}
		if text = text[n:]; count > 0 {
			s.cells[i] = sketchCell{int64(count), binary.BigEndian.Uint64(text), binary.BigEndian.Uint32(text[8:])}
			text = text[12:]
		}
	}
	if len(text) > 0 {
		return sketch{}, errSketch
	}
	return s, nil
}
