package spoollog

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// segmentBytes is the size at which a segment is closed, unless a limit requires a smaller one.
const segmentBytes = 32 << 20

// segments holds the files of a log: the durable records, and those being written. The goroutine that commits calls
// write, rotate and closeActive without the mutex, which is the mutex of the log. All other methods are called with the
// mutex held.
type segments struct {
	fs  FS
	dir string
	log *slog.Logger
	id  uint64 // identity of the log

	mu     *sync.Mutex // guards the rest
	list   []*segment  // by offset; the last one is active
	file   File        // file of the active segment, nil if none; used by the committing goroutine
	active *segment
	bytes  int64         // size at which the active segment is closed
	age    time.Duration // age at which it is closed, regardless of size; zero: no limit

	torn, written int64  // bytes, see Counts
	damaged       uint64 // records, see Counts
}

// find lists the files in the directory.
func (ss *segments) find() ([]FileInfo, error) {
	files, err := ss.fs.ReadDir(ss.dir)
	if err != nil {
		return nil, err
	}
	// The offsets of a run are above those in the existing file names, so these names must be durable.
	if err := ss.fs.SyncDir(ss.dir); err != nil {
		return nil, err
	}
	if len(files) == 0 {
		if err := ss.fs.SyncDir(filepath.Dir(ss.dir)); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// adopt adds an existing segment, and finds its end if its name does not contain it.
func (ss *segments) adopt(s *segment, sealed bool) error {
	ss.list = append(ss.list, s)
	if sealed {
		return nil
	}
	torn, err := s.recover(ss.fs)
	if err != nil {
		return err
	}
	if torn > 0 {
		ss.torn += torn
		ss.log.Warn("removed the incomplete end of the spool, which was never acknowledged", "file", s.path,
			"bytes", torn)
		err = ss.fs.Truncate(s.path, s.size)
	}
	if s.end > s.base { // an empty segment is removed when there is another one
		err = errors.Join(err, s.finish(ss.fs))
	}
	if err != nil { // its end is known, and the next start finds it again
		ss.log.Warn("cannot close a file of the spool", "file", s.path, "err", err)
	}
	return nil
}

// begin chooses the identity of the log and the first offset of this run. The offset is above every offset that a
// record ever had, including records that were never written to disk.
func (ss *segments) begin() (next uint64) {
	slices.SortFunc(ss.list, func(a, b *segment) int { return cmp.Compare(a.base, b.base) })
	if len(ss.list) == 0 {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		ss.id = binary.LittleEndian.Uint64(b[:])
		return 0
	}
	last := ss.list[len(ss.list)-1]
	ss.id = last.id
	return (max(last.base, last.end)>>epochBits + 1) << epochBits
}

// write writes and syncs the frames.
func (ss *segments) write(frames []frame) error {
	var pos int64
	var durable uint64
	if ss.active != nil {
		pos, durable = ss.active.size, ss.active.end
	}
	end := durable
	for i := range frames {
		f := &frames[i]
		if ss.active == nil || f.first != end || pos >= ss.limit(f.time) {
			if err := ss.rotate(pos, end, f.first, f.time); err != nil {
				return err
			}
			pos, durable = 0, f.first
		}
		f.unsynced = uint32(f.first - durable)
		ss.active.seal(f, pos)
		if _, err := ss.file.Write(f.data); err != nil {
			return err
		}
		pos, end = pos+int64(len(f.data)), f.end()
	}
	return ss.sync(pos, end, frames[len(frames)-1].time)
}

// limit returns the size at which the active segment is closed at this time. Any size suffices when the segment is so
// old that its records could not be removed in time.
func (ss *segments) limit(now time.Time) int64 {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.age > 0 && now.Sub(ss.active.oldest) >= ss.age {
		return 1
	}
	return ss.bytes
}

// sync makes the active segment durable up to end, and visible to the readers.
func (ss *segments) sync(size int64, end uint64, now time.Time) error {
	if err := ss.file.Sync(); err != nil {
		return err
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.written += size - ss.active.size
	ss.active.size, ss.active.end, ss.active.newest = size, end, now
	return nil
}

// rotate closes the active segment, if there is one, at end, and begins a new segment at offset first.
func (ss *segments) rotate(size int64, end, first uint64, now time.Time) error {
	if ss.active != nil {
		if err := ss.sync(size, end, now); err != nil {
			return err
		}
		if err := ss.closeActive(); err != nil {
			return err
		}
	}
	id := identity{ss.id, first}
	s := &segment{identity: id, path: filepath.Join(ss.dir, openName(id)), end: first, oldest: now, newest: now}
	file, err := ss.fs.Create(s.path)
	if err != nil {
		return err
	}
	if err := ss.fs.SyncDir(ss.dir); err != nil {
		return errors.Join(err, file.Close(), ss.fs.Remove(s.path))
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.file, ss.active = file, s
	ss.list = append(ss.list, s)
	ss.removeEmpty()
	return nil
}

// closeActive closes the active segment, if there is one. If the segment cannot be renamed, only the next start takes
// longer.
func (ss *segments) closeActive() error {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.active == nil {
		return nil
	}
	err := ss.file.Close()
	if ss.active.end > ss.active.base { // an empty segment keeps its place until there is another one
		if failed := ss.active.finish(ss.fs); failed != nil {
			ss.log.Warn("cannot rename a file of the spool", "file", ss.active.path, "err", failed)
		}
	}
	ss.file, ss.active = nil, nil
	return err
}

// abandon gives up the active segment after a failed write or sync, because the state of the unsynced data is unknown.
// The data synced before stays. The rest is cut where possible, and otherwise not read.
func (ss *segments) abandon() {
	s := ss.active
	if s == nil {
		return
	}
	err := errors.Join(ss.file.Truncate(s.size), ss.file.Close())
	ss.file, ss.active = nil, nil
	if s.end > s.base {
		err = errors.Join(err, s.finish(ss.fs))
	}
	if err != nil {
		ss.log.Warn("cannot close a file of the spool", "file", s.path, "err", err)
	}
}

// removeEmpty removes the empty segments of earlier runs; the new segment replaces them.
func (ss *segments) removeEmpty() {
	ss.list = slices.DeleteFunc(ss.list, func(s *segment) bool {
		return s != ss.active && s.end == s.base && ss.removeFile(s)
	})
}

// oldest returns the oldest segment that may be removed, nil if there is none. The last segment stays, because it holds
// the identity of the log and the assigned offsets.
func (ss *segments) oldest() *segment {
	if len(ss.list) <= 1 || ss.list[0] == ss.active {
		return nil
	}
	return ss.list[0]
}

// removeOldest removes the segment that oldest returns, and reports whether it succeeded.
func (ss *segments) removeOldest() bool {
	if !ss.removeFile(ss.list[0]) {
		return false
	}
	ss.list = ss.list[1:]
	return true
}

func (ss *segments) removeFile(s *segment) bool {
	if err := ss.fs.Remove(s.path); err != nil {
		ss.log.Warn("cannot remove a file of the spool", "file", s.path, "err", err)
		return false
	}
	return true
}

// at returns the first segment with records at or after offset, nil if there is none.
func (ss *segments) at(offset uint64) *segment {
	i, _ := slices.BinarySearchFunc(ss.list, offset, func(s *segment, offset uint64) int {
		if s.end > offset {
			return 1
		}
		return -1
	})
	for ; i < len(ss.list); i++ {
		if s := ss.list[i]; s.end > s.base {
			return s
		}
	}
	return nil
}

// damage counts the records of a segment in [from, to) as unreadable.
func (ss *segments) damage(s *segment, from, to uint64, bytes int64) {
	if from = max(from, s.holes); from >= to { // another reader found it
		return
	}
	s.holes = to
	ss.damaged += to - from
	ss.log.Error("records of the spool are damaged and were skipped", "file", s.path, "records", to-from, "bytes",
		bytes)
}

// size returns the number of durable bytes.
func (ss *segments) size() (bytes int64) {
	for _, s := range ss.list {
		bytes += s.size
	}
	return bytes
}

// unread reports whether a segment has records at or after low and was last written before the given time.
func (ss *segments) unread(low uint64, before time.Time) bool {
	return slices.ContainsFunc(ss.list, func(s *segment) bool {
		return s.end > low && s.end > s.base && s.newest.Before(before)
	})
}

// from returns the number of durable records at or after offset.
func (ss *segments) from(offset uint64) (records uint64) {
	for _, s := range ss.list {
		records += s.end - min(s.end, max(s.base, offset))
	}
	return records
}

// bounds returns the offset of the oldest record, and the offset after the newest.
func (ss *segments) bounds() (oldest, end uint64) {
	for i, s := range ss.list {
		if i == 0 {
			oldest = s.base
		}
		end = s.end
	}
	return oldest, end
}
