// Package spoollog implements a log of records on disk. One or more writers append to it; each reader reads it at its
// own pace.
//
// The log is a directory of segments, append-only files of frames with checksums. Records are synced when Commit.Wait
// returns nil. A log can be opened after a power cut, a full disk or a failing disk: Open cuts a torn end, and skips
// and counts damaged parts in the middle. A segment is removed when all readers have acknowledged its records, or when
// a limit requires it.
package spoollog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"time"
)

// ErrFailed is the error of a writer after a failed commit.
var ErrFailed = errors.New("an earlier write to the spool failed")

// ErrClosed is returned by calls on a closed log.
var ErrClosed = errors.New("the spool is closed")

// ErrFull is returned by Append if the log is full and its policy is Refuse.
var ErrFull = errors.New("the spool is full")

// Options are the settings of Open. The zero value works.
type Options struct {
	FS           FS               // nil: files of the machine
	Log          *slog.Logger     // nil discards
	Now          func() time.Time // nil: time.Now
	SegmentBytes int64            // 0: 32 MiB
}

// Log is an open log. Its methods may be called concurrently. Records are in the queue until they are written, and then
// in the segments until the retention removes them.
type Log struct {
	fs  FS
	dir string
	now func() time.Time

	mu        sync.Mutex // guards the rest
	closed    bool
	changed   chan struct{} // closed when there are more records or more space
	segments  *segments
	readers   *readers
	queue     *queue
	retention *retention
}

// Open opens the log in dir, and creates it if necessary. No other process may have it open.
func Open(dir string, o Options) (*Log, error) {
	if o.FS == nil {
		files, err := createDirectory(dir)
		if err != nil {
			return nil, fmt.Errorf("cannot create the directory of the spool: %w", err)
		}
		o.FS = files
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.SegmentBytes == 0 {
		o.SegmentBytes = segmentBytes
	}
	l := &Log{fs: o.FS, dir: dir, now: o.Now, changed: make(chan struct{})}
	l.segments = &segments{fs: o.FS, dir: dir, log: o.Log, mu: &l.mu, bytes: o.SegmentBytes}
	l.readers = &readers{fs: o.FS, dir: dir, log: o.Log, now: o.Now, byName: map[string]*position{}}
	l.queue = &queue{log: l}
	l.retention = &retention{log: o.Log, now: o.Now, segments: l.segments, readers: l.readers, queue: l.queue}
	if err := l.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open the spool in %s: %w", dir, err), l.closeFiles())
	}
	return l, nil
}

// load finds the segments and readers in the directory.
func (l *Log) load() error {
	files, err := l.segments.find()
	if err != nil {
		return err
	}
	if d, ok := l.fs.(*directory); ok {
		d.tighten(files, l.segments.log)
	}
	for _, f := range files {
		s, sealed, ok := segmentOf(l.dir, f)
		switch {
		case ok:
			if err := l.segments.adopt(s, sealed); err != nil {
				return err
			}
		case isReader(f.Name):
			l.readers.load(f.Name)
		case isDraft(f.Name):
			_ = l.fs.Remove(filepath.Join(l.dir, f.Name)) // left by a run that was killed
		}
	}
	l.queue.next = l.segments.begin()
	l.readers.begin(l.segments.id)
	return nil
}

// ID identifies the log. It does not change while the directory has segments.
func (l *Log) ID() uint64 { return l.segments.id }

// Dir returns the directory of the log.
func (l *Log) Dir() string { return l.dir }

// SetLimits sets the limits.
func (l *Log) SetLimits(limits Limits) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retention.set(limits)
	l.notify()
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

// notify wakes all goroutines that wait for a change.
func (l *Log) notify() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// Close waits for the commit in progress, fails the commits that nobody waits for, and closes the log.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	for l.queue.committing != nil {
		_ = l.wait(context.Background(), l.queue.committing.done)
	}
	for _, c := range l.queue.clear() {
		c.err = ErrClosed
		close(c.done)
	}
	if l.queue.memory != nil {
		l.queue.memory.Close()
	}
	l.notify()
	l.readers.saveAll()
	l.retention.logDrops()
	l.mu.Unlock()
	defer l.mu.Lock()
	return errors.Join(l.segments.closeActive(), l.closeFiles())
}

// closeFiles closes the directory.
func (l *Log) closeFiles() error {
	if c, ok := l.fs.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
