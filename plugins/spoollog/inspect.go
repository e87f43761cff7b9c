package spoollog

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
)

// Summary describes the content of a log's directory. The log may be in use.
type Summary struct {
	ID       uint64
	Segments []SegmentInfo // oldest first
	Readers  []ReaderInfo  // by name
}

// SegmentInfo describes a segment.
type SegmentInfo struct {
	Path    string
	First   uint64 // offset of the first record
	End     uint64 // offset after the last record
	Bytes   int64
	Written time.Time // time of the last record
	Open    bool      // in use, or not closed
}

// ReaderInfo describes a reader as it was last saved.
type ReaderInfo struct {
	Name   string
	Next   uint64 // offset up to which all records are acknowledged
	Behind uint64 // number of unacknowledged records
}

// Damage is an unreadable part of a log.
type Damage struct {
	Path    string
	Records uint64
	Bytes   int64
}

// Inspect describes the log in dir without opening it. It reads the file names, and the content of segments that were
// not closed.
func Inspect(dir string) (Summary, error) {
	all, readers, err := list(dir)
	if err != nil {
		return Summary{}, err
	}
	var s Summary
	for _, seg := range all {
		s.ID = seg.id
		s.Segments = append(s.Segments, SegmentInfo{
			Path: seg.path, First: seg.base, End: seg.end, Bytes: seg.size, Written: seg.newest,
			Open: seg.path == filepath.Join(dir, openName(seg.identity)),
		})
	}
	for _, r := range readers {
		info := ReaderInfo{Name: r.name, Next: r.low}
		for _, seg := range all {
			info.Behind += seg.end - min(seg.end, max(seg.base, r.low))
		}
		s.Readers = append(s.Readers, info)
	}
	sort.Slice(s.Readers, func(i, j int) bool { return s.Readers[i].Name < s.Readers[j].Name })
	return s, nil
}

// list returns the segments and readers in dir.
func list(dir string) (all []*segment, readers []*position, err error) {
	fs, err := openDirectory(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read the spool: %w", err)
	}
	defer fs.Close()
	files, err := fs.ReadDir(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read the spool: %w", err)
	}
	for _, f := range files {
		if isReader(f.Name) {
			if r, err := parseReader(fs, filepath.Join(dir, f.Name)); err == nil {
				readers = append(readers, r)
			}
			continue
		}
		s, sealed, ok := segmentOf(dir, f)
		if ok && !sealed {
			ok, err = s.find(fs)
		}
		if err != nil {
			return nil, nil, err
		}
		if ok {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b *segment) int { return cmp.Compare(a.base, b.base) })
	if len(all) == 0 && len(readers) == 0 {
		return nil, nil, fmt.Errorf("there is no spool in %s", dir)
	}
	return all, readers, nil
}

// find finds the end of a segment without changing the file, and reports whether the file exists.
func (s *segment) find(fs FS) (bool, error) {
	f, err := fs.Open(s.path)
	if errors.Is(err, os.ErrNotExist) { // closed or removed in the meantime
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	_, _, err = s.scan(f)
	return true, err
}

// Walk reads the log in dir, which may be in use. It calls each for every record, with the offset after the record, and
// damaged for every unreadable part.
func Walk(dir string, each func(next uint64, r *record.Record) error, damaged func(Damage)) error {
	all, _, err := list(dir)
	if err != nil {
		return err
	}
	for _, s := range all {
		if err := s.walk(each, damaged); err != nil {
			return fmt.Errorf("cannot read %s: %w", s.path, err)
		}
	}
	return nil
}

func (s *segment) walk(each func(uint64, *record.Record) error, damaged func(Damage)) error {
	f, err := os.Open(filepath.Clean(s.path))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	next := s.base
	c := cursor{identity: s.identity, file: f, limit: s.size}
	for next < s.end {
		f, err := c.next()
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		first := f.first
		if errors.Is(err, io.EOF) {
			first = s.end
		}
		if first > next {
			damaged(Damage{s.path, first - next, f.skipped})
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err := f.each(each); err != nil {
			return err
		}
		next = f.end()
	}
	return nil
}

func (f *frame) each(each func(uint64, *record.Record) error) error {
	records, err := f.records(nil)
	if err != nil {
		return err
	}
	for i := range records {
		if err := each(f.first+uint64(i)+1, &records[i]); err != nil {
			return err
		}
	}
	return nil
}

// Truncate removes the segments whose last record was written before the given time, or all segments if it is zero,
// even if their records are unread. It returns the number of removed records and bytes. The log must not be in use.
func Truncate(dir string, before time.Time) (records uint64, bytes int64, err error) {
	if _, err := Inspect(dir); err != nil { // Open would create the directory
		return 0, 0, err
	}
	l, release, err := OpenShared(dir, nil, nil)
	if err != nil {
		return 0, 0, err
	}
	records, bytes, err = l.truncate(before)
	return records, bytes, errors.Join(err, release())
}

func (l *Log) truncate(before time.Time) (records uint64, bytes int64, err error) {
	// An empty segment replaces the last one, so that its offsets are not reused.
	if err := l.segments.rotate(0, 0, l.queue.next, l.now()); err != nil {
		return 0, 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := l.segments.oldest(); s != nil && (before.IsZero() || s.newest.Before(before)); s = l.segments.oldest() {
		if err := l.fs.Remove(s.path); err != nil {
			return records, bytes, err
		}
		records, bytes, l.segments.list = records+s.end-s.base, bytes+s.size, l.segments.list[1:]
	}
	return records, bytes, nil
}
