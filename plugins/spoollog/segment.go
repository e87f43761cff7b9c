package spoollog

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// segment is a file of consecutive records. Its name has the identity of the log, the offset of the first record and,
// once the segment is closed, the offset after the last record. Opening a log needs only the names, and the content of
// files without an end offset in their names.
type segment struct {
	identity
	path   string
	end    uint64    // offset after the last durable record
	size   int64     // bytes of the durable frames
	oldest time.Time // time of the first record; zero until it is known
	newest time.Time // time of the last record

	holes uint64 // offset up to which damage was counted
}

const (
	suffix    = ".spool"
	epochBits = 40 // each run of a log advances the offsets to a multiple of 1<<epochBits
)

func openName(id identity) string { return fmt.Sprintf("%016x-%016x%s", id.id, id.base, suffix) }

func sealedName(id identity, end uint64) string {
	return fmt.Sprintf("%016x-%016x-%016x%s", id.id, id.base, end, suffix)
}

// parseName parses the name of a segment's file, and reports whether it contains the end offset.
func parseName(name string) (id identity, end uint64, sealed, ok bool) {
	name, ok = strings.CutSuffix(name, suffix)
	parts := strings.Split(name, "-")
	if !ok || len(parts) < 2 || len(parts) > 3 {
		return id, 0, false, false
	}
	var numbers [3]uint64
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 16, 64)
		if err != nil || len(part) != 16 {
			return id, 0, false, false
		}
		numbers[i] = n
	}
	sealed = len(parts) == 3
	return identity{numbers[0], numbers[1]}, numbers[2], sealed, !sealed || numbers[2] >= numbers[1]
}

// segmentOf returns the segment of a file in dir; ok is false if the file is no segment.
func segmentOf(dir string, f FileInfo) (s *segment, sealed, ok bool) {
	id, end, sealed, ok := parseName(f.Name)
	if !ok {
		return nil, false, false
	}
	return &segment{identity: id, path: filepath.Join(dir, f.Name), end: end, size: f.Size, newest: f.ModTime}, sealed,
		true
}

// recover finds the end of a segment that was not closed. It returns the number of bytes after the end, which are the
// remains of writes that were never acknowledged.
func (s *segment) recover(fs FS) (torn int64, err error) {
	f, err := fs.Open(s.path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	torn, sure, err := s.scan(f)
	if err != nil {
		return 0, err
	}
	return torn, s.affirm(fs, f, sure)
}

// scan finds the end of a segment and the beginning of the last commit.
//
// A frame states how much was synced when it was written. A damaged part that a later frame states as synced is a hole;
// scan continues after it. A damaged part that no later frame covers is a torn write. It and everything after it is
// cut, because nothing there was acknowledged.
func (s *segment) scan(f File) (torn, sure int64, err error) {
	s.end = s.base
	good := int64(0) // end of the part to keep
	c := cursor{identity: s.identity, file: f, limit: s.size, reuse: true}
	for {
		next, err := c.next()
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, 0, err
		}
		if errors.Is(err, io.EOF) || next.first > s.end && next.first-uint64(next.unsynced) <= s.end {
			torn, s.size = s.size-good, good
			return torn, sure, nil
		}
		if next.unsynced == 0 {
			sure = c.pos - int64(len(next.data))
		}
		s.end, good, s.newest = next.end(), c.pos, next.time
	}
}

// affirm rewrites and syncs the last commit of the segment. The process that wrote it may have been killed before the
// sync, or after a failed sync. Then the system may show data that is not on the disk and that no later sync would
// write.
func (s *segment) affirm(fs FS, f File, from int64) error {
	b := make([]byte, s.size-from)
	if len(b) == 0 {
		return nil
	}
	if _, err := f.ReadAt(b, from); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return fs.Overwrite(s.path, from, b)
}

// finish gives the file of a closed segment its final name.
func (s *segment) finish(fs FS) error {
	path := filepath.Join(filepath.Dir(s.path), sealedName(s.identity, s.end))
	if err := fs.Rename(s.path, path); err != nil {
		return err
	}
	s.path = path
	return nil
}
