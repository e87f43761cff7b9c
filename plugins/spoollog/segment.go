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

// segment is a file of records without a gap. Its name says which: the log, the offset of
// the first one and, when nothing more is written to it, the offset behind the last.
// Opening a log needs no more than the names, and the content of files that have no end in theirs.
type segment struct {
	identity
	path   string
	end    uint64    // offset behind the last durable record
	size   int64     // of the durable frames
	oldest time.Time // when the first record was written; zero until it is known
	newest time.Time // when the last record was written

	holes uint64 // up to which damage was counted
}

const (
	suffix    = ".spool"
	epochBits = 40 // offsets of a run of a log are higher by a multiple of 1<<epochBits
)

func openName(id identity) string { return fmt.Sprintf("%016x-%016x%s", id.id, id.base, suffix) }

func sealedName(id identity, end uint64) string {
	return fmt.Sprintf("%016x-%016x-%016x%s", id.id, id.base, end, suffix)
}

// parseName returns what the name of a segment's file says, and whether it says the end.
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

// segmentOf returns the segment in a file of dir, false when it is none.
func segmentOf(dir string, f FileInfo) (s *segment, sealed, ok bool) {
	id, end, sealed, ok := parseName(f.Name)
	if !ok {
		return nil, false, false
	}
	return &segment{identity: id, path: filepath.Join(dir, f.Name), end: end, size: f.Size, newest: f.ModTime}, sealed, true
}

// recover finds the end of a segment that was not closed, and returns how many bytes behind
// it are the remains of writes that were never acknowledged.
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

// scan finds the end of a segment, and where its last commit begins.
//
// A frame says how much was synced when it was written. What is damaged although a later
// frame says that it was synced is a hole, and reading goes on behind it. Damage that no
// frame vouches for is where a write was torn, and all that follows it is cut: it was
// acknowledged neither.
func (s *segment) scan(f File) (torn, sure int64, err error) {
	s.end = s.base
	good := int64(0) // the end of what is kept
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

// affirm writes the last commit of the segment again, and syncs it. The process that wrote
// it may have been killed before it synced, or after a sync that failed: then the system
// may show what is not on the disk and will not be, whatever a sync says.
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

// finish gives the file of a segment that is not written to any more its final name.
func (s *segment) finish(fs FS) error {
	path := filepath.Join(filepath.Dir(s.path), sealedName(s.identity, s.end))
	if err := fs.Rename(s.path, path); err != nil {
		return err
	}
	s.path = path
	return nil
}
