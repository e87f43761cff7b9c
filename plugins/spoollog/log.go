// Package spoollog is a log of records on disk: one or more writers append to it, and each of
// several readers goes through it at its own pace.
//
// The log is a directory of segments, append-only files of frames with checksums. What
// Commit.Wait returned for is synced. Whatever a power cut, a full disk or a failing one leaves
// behind can be opened: a torn end is cut, a damaged middle is skipped and counted. A segment
// is removed when all readers acknowledged its records, or when a limit demands it.
package spoollog

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// segmentBytes is the size at which a segment is closed, when no limit asks for less.
const segmentBytes = 32 << 20

// errLate says that the readers did not acknowledge in time.
var errLate = errors.New("the readers do not keep up")

// ErrFailed is returned to a writer after a commit failed.
var ErrFailed = errors.New("an earlier write to the spool failed")

// ErrClosed is returned by calls on a log that was closed.
var ErrClosed = errors.New("the spool is closed")

// Options are what a log needs beside its directory. The zero value works.
type Options struct {
	FS           FS               // nil: the files of the machine
	Log          *slog.Logger     // nil discards
	Now          func() time.Time // nil: time.Now
	SegmentBytes int64            // 0: 32 MiB
}

// Log is an open log. Its methods may be called concurrently.
type Log struct {
	fs           FS
	dir          string
	id           uint64
	log          *slog.Logger
	now          func() time.Time
	segmentBytes int64

	mu         sync.Mutex // guards the rest
	closed     bool
	segments   []*segment // by offset; the active one is the last
	file       File       // of the active segment, nil when there is none; used by who commits
	active     *segment
	next       uint64        // offset of the next record
	pending    []frame       // appended and not being committed
	held       int64         // bytes of pending
	commits    []*Commit     // of pending, in order
	committing *Commit       // the last of those that are being written, nil when nobody writes
	delay      time.Duration // see SetHybrid
	behind     bool          // the readers do not keep up
	failures   int           // commits that failed
	open       int           // sources that are open
	limits     Limits
	readers    map[string]*Reader
	changed    chan struct{} // closed when there is more to read, or more room
	counts     Counts
}

// Counts are what a log counted since it was opened.
type Counts struct {
	Torn    int64  // bytes cut from ends that were torn
	Damaged uint64 // records that could not be read
	Dropped uint64 // records that a limit cost
	Written int64  // bytes
}

// Open opens the log in dir, which it creates. No other process may have it open.
func Open(dir string, o Options) (*Log, error) {
	l := &Log{
		fs: o.FS, dir: dir, log: o.Log, now: o.Now, segmentBytes: o.SegmentBytes,
		readers: map[string]*Reader{}, changed: make(chan struct{}),
	}
	if l.fs == nil {
		l.fs = OS{}
	}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	if l.now == nil {
		l.now = time.Now
	}
	if l.segmentBytes == 0 {
		l.segmentBytes = segmentBytes
	}
	if err := l.load(); err != nil {
		return nil, fmt.Errorf("cannot open the spool in %s: %w", dir, err)
	}
	return l, nil
}

// load finds the segments and readers in the directory.
func (l *Log) load() error {
	if err := l.fs.MkdirAll(l.dir); err != nil {
		return err
	}
	files, err := l.fs.ReadDir(l.dir)
	if err != nil {
		return err
	}
	// The offsets of a run are above those in the names there are, so these must not
	// vanish any more.
	if err := l.fs.SyncDir(l.dir); err != nil {
		return err
	}
	if len(files) == 0 {
		if err := l.fs.SyncDir(filepath.Dir(l.dir)); err != nil {
			return err
		}
	}
	for _, f := range files {
		s, sealed, ok := segmentOf(l.dir, f)
		switch {
		case ok:
			err = l.adopt(s, sealed)
		case isReader(f.Name):
			err = l.loadReader(f.Name)
		}
		if err != nil {
			return err
		}
	}
	slices.SortFunc(l.segments, func(a, b *segment) int { return compare(a.base, b.base) })
	l.begin()
	for _, r := range l.readers {
		if r.id != l.id { // of a log that is gone
			r.low = 0
		}
	}
	return nil
}

func compare(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// adopt adds a segment that was found, and finds its end if its name does not say it.
func (l *Log) adopt(s *segment, sealed bool) error {
	l.segments = append(l.segments, s)
	if sealed {
		return nil
	}
	torn, err := s.recover(l.fs)
	if err != nil {
		return err
	}
	if torn > 0 {
		l.counts.Torn += torn
		l.log.Warn("cut what a write that was never acknowledged left at the end of the spool", "file", s.path, "bytes", torn)
		err = l.fs.Truncate(s.path, s.size)
	}
	if s.end > s.base { // an empty one is removed when there is another
		err = errors.Join(err, s.finish(l.fs))
	}
	if err != nil { // its end is known, and found again at the next start
		l.log.Warn("cannot close a file of the spool", "file", s.path, "err", err)
	}
	return nil
}

// begin chooses the offsets of this run: above all that were ever given to a record, be it
// that the record did not get to the disk.
func (l *Log) begin() {
	if len(l.segments) == 0 {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		l.id = binary.LittleEndian.Uint64(b[:])
		return
	}
	last := l.segments[len(l.segments)-1]
	l.id = last.id
	l.next = (max(last.base, last.end)>>epochBits + 1) << epochBits
}

// ID tells logs apart. It stays while the directory has segments.
func (l *Log) ID() uint64 { return l.id }

// Dir returns the directory of the log.
func (l *Log) Dir() string { return l.dir }

// Commit is the fate of records that were appended.
type Commit struct {
	log   *Log
	since time.Time
	end   uint64 // offset behind its last record; guarded by log.mu
	done  chan struct{}
	err   error // set before done is closed
}

// Writer appends to a log. After a commit that failed it appends nothing more: what it
// appended meanwhile is not in the log either, so that nothing gets ahead of what is to be
// written again.
type Writer struct {
	log      *Log
	failures int // of the log, when the writer began
}

// Writer returns a writer.
func (l *Log) Writer() *Writer {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &Writer{l, l.failures}
}

// Append adds the frames of an Encode and returns at once, unless the log is full and is to
// block. The records are safe when Wait of the Commit returns nil. A nil Commit means
// that the log is full and dropped them.
func (w *Writer) Append(ctx context.Context, frames []Frame) (*Commit, error) {
	l := w.log
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		if l.closed {
			return nil, ErrClosed
		}
		if w.failures != l.failures {
			return nil, ErrFailed
		}
		dropped, wait := l.makeRoom(frames)
		if dropped {
			return nil, nil
		}
		if wait == nil {
			break
		}
		if err := l.wait(ctx, wait); err != nil {
			return nil, err
		}
	}
	return l.append(frames), nil
}

// append adds the frames to those that are pending.
func (l *Log) append(frames []Frame) *Commit {
	now := l.now()
	for _, f := range frames {
		f.frame.first, f.frame.time = l.next, now
		l.next = f.frame.end()
		l.pending = append(l.pending, f.frame)
		l.held += int64(len(f.frame.data))
	}
	return l.commitOf(now)
}

// commitOf returns the commit of the frames that were appended last. In memory, each has
// one of its own; what is written at once is done at once.
func (l *Log) commitOf(now time.Time) *Commit {
	if l.delay > 0 || len(l.commits) == 0 {
		l.commits = append(l.commits, &Commit{log: l, since: now, done: make(chan struct{})})
	}
	c := l.commits[len(l.commits)-1]
	c.end = l.next
	if l.delay > 0 {
		l.notify()
	}
	return c
}

// Pending returns how many bytes were appended that nobody has begun to write.
func (l *Log) Pending() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// wait waits, without the lock, until signal is closed or ctx ends.
func (l *Log) wait(ctx context.Context, signal <-chan struct{}) error {
	l.mu.Unlock()
	defer l.mu.Lock()
	select {
	case <-signal:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// notify wakes who waits for a change.
func (l *Log) notify() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// Wait returns when the records are synced, or why they are not: then they may or may not
// be in the log. One of those who wait writes for all (group commit).
func (c *Commit) Wait(ctx context.Context) error {
	if c == nil {
		return nil
	}
	l := c.log
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		select {
		case <-c.done:
			return c.err
		default:
		}
		if l.committing != nil {
			if err := l.wait(ctx, l.committing.done); err != nil {
				return err
			}
		} else if d := l.patient(c); d > 0 {
			if err := l.waitForReaders(ctx, c, d); err != nil {
				return err
			}
		} else {
			l.commit()
		}
	}
}

// Done reports whether Wait returns at once.
func (c *Commit) Done() bool {
	if c == nil {
		return true
	}
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// Flush has everything that was appended written, without waiting for readers.
func (l *Log) Flush(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.exclusive(ctx); err != nil {
		return err
	}
	if len(l.commits) > 0 {
		l.commit()
	}
	return nil
}

// commit writes and syncs what is pending.
func (l *Log) commit() {
	commits, frames := l.commits, l.pending
	l.committing, l.commits, l.pending, l.held = commits[len(commits)-1], nil, nil, 0
	l.mu.Unlock()
	err := l.write(frames)
	l.mu.Lock()
	if err != nil {
		l.abandon()
		l.failures++
		commits = append(commits, l.commits...) // of what was appended meanwhile
		l.commits, l.pending, l.held = nil, nil, 0
		err = fmt.Errorf("cannot write to the spool in %s: %w", l.dir, err)
	}
	l.committing = nil
	for _, c := range commits {
		c.err = err
		close(c.done)
	}
	l.retain()
	l.notify()
}

// write writes and syncs the frames. Only who commits calls it, without the lock.
func (l *Log) write(frames []frame) error {
	var pos int64
	var durable uint64
	if l.active != nil {
		pos, durable = l.active.size, l.active.end
	}
	end := durable
	for i := range frames {
		f := &frames[i]
		if l.active == nil || f.first != end || pos >= l.segmentSize(f.time) {
			if err := l.rotate(pos, end, f); err != nil {
				return err
			}
			pos, durable = 0, f.first
		}
		f.unsynced = uint32(f.first - durable)
		l.active.seal(f, pos)
		if _, err := l.file.Write(f.data); err != nil {
			return err
		}
		pos, end = pos+int64(len(f.data)), f.end()
	}
	return l.sync(pos, end, frames[len(frames)-1].time)
}

// sync makes the active segment up to end durable, and shows it to the readers.
func (l *Log) sync(size int64, end uint64, now time.Time) error {
	if err := l.file.Sync(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.Written += size - l.active.size
	l.active.size, l.active.end, l.active.newest = size, end, now
	return nil
}

// rotate closes the active segment, if there is one, and begins another one with frame f.
func (l *Log) rotate(size int64, end uint64, f *frame) error {
	if l.active != nil {
		if err := l.sync(size, end, f.time); err != nil {
			return err
		}
		if err := l.closeActive(); err != nil {
			return err
		}
	}
	id := identity{l.id, f.first}
	s := &segment{identity: id, path: filepath.Join(l.dir, openName(id)), end: f.first, oldest: f.time, newest: f.time}
	file, err := l.fs.Create(s.path)
	if err != nil {
		return err
	}
	if err := l.fs.SyncDir(l.dir); err != nil {
		return errors.Join(err, file.Close(), l.fs.Remove(s.path))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.file, l.active = file, s
	l.segments = append(l.segments, s)
	l.removeEmpty()
	return nil
}

// closeActive closes the active segment. That it cannot be renamed costs the next start
// some time.
func (l *Log) closeActive() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.file.Close()
	if l.active.end > l.active.base { // an empty one keeps its place until there is another
		if failed := l.active.finish(l.fs); failed != nil {
			l.log.Warn("cannot rename a file of the spool", "file", l.active.path, "err", failed)
		}
	}
	l.file, l.active = nil, nil
	return err
}

// removeEmpty removes the segments of former runs that have no records: the one that was
// begun takes their place.
func (l *Log) removeEmpty() {
	l.segments = slices.DeleteFunc(l.segments, func(s *segment) bool {
		return s != l.active && s.end == s.base && l.removeFile(s)
	})
}

// abandon gives up the active segment after a write or sync that failed: what the system
// kept of it is not known. What was synced before stays. The rest is cut where that is
// possible, and not read where it is not.
func (l *Log) abandon() {
	s := l.active
	if s == nil {
		return
	}
	err := errors.Join(l.file.Truncate(s.size), l.file.Close())
	l.file, l.active = nil, nil
	if s.end > s.base {
		err = errors.Join(err, s.finish(l.fs))
	}
	if err != nil {
		l.log.Warn("cannot close a file of the spool", "file", s.path, "err", err)
	}
}

// Close waits for a commit that is under way, fails those that nobody waits for, and closes the log.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	for l.committing != nil {
		_ = l.wait(context.Background(), l.committing.done)
	}
	for _, c := range l.commits {
		c.err = ErrClosed
		close(c.done)
	}
	l.commits, l.pending = nil, nil
	l.notify()
	var errs []error
	for _, r := range l.readers {
		r.save()
	}
	if l.active == nil {
		return errors.Join(errs...)
	}
	l.mu.Unlock()
	errs = append(errs, l.closeActive())
	l.mu.Lock()
	return errors.Join(errs...)
}
