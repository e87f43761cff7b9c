package spoollog

import (
	"bytes"
	"context"
	"time"
)

// SetHybrid has records wait in memory for the readers, for delay at most, and go to the
// disk only when those did not acknowledge them until then. Zero has all go to the disk.
//
// When readers do not keep up, or none is open, records go to the disk at once, until the
// readers have acknowledged all there is.
func (l *Log) SetHybrid(delay time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.exclusive(context.Background()); err != nil {
		return err
	}
	l.delay, l.behind = delay, true
	if delay == 0 || l.active != nil {
		return nil
	}
	// The offsets of records in memory are never given to others: not even when this run
	// writes nothing more than the name of a segment.
	c := &Commit{log: l, done: make(chan struct{})}
	first := frame{first: l.next, time: l.now()}
	l.committing = c
	l.mu.Unlock()
	err := l.rotate(0, 0, &first)
	l.mu.Lock()
	l.committing = nil
	close(c.done)
	l.notify()
	return err
}

// exclusive waits until nobody writes.
func (l *Log) exclusive(ctx context.Context) error {
	for l.committing != nil {
		if err := l.wait(ctx, l.committing.done); err != nil {
			return err
		}
	}
	if l.closed {
		return ErrClosed
	}
	return nil
}

// patient returns how long a commit waits for the readers before it is written.
func (l *Log) patient(c *Commit) time.Duration {
	if l.delay == 0 || l.behind || l.open == 0 {
		return 0
	}
	return time.Until(c.since.Add(l.delay))
}

// waitForReaders waits until the commit is done, or for d; then the readers do not keep up.
func (l *Log) waitForReaders(ctx context.Context, c *Commit, d time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, d, errLate)
	defer cancel()
	err := l.wait(ctx, c.done)
	if err == errLate {
		l.behind = true
		return nil
	}
	return err
}

// forget takes what all readers acknowledged out of memory, and reports it as done.
func (l *Log) forget() {
	if l.delay == 0 {
		return
	}
	low, n := l.low(), 0
	for n < len(l.pending) && l.pending[n].end() <= low {
		l.held -= int64(len(l.pending[n].data))
		n++
	}
	l.pending = l.pending[n:]
	for n = 0; n < len(l.commits) && l.commits[n].end <= low; n++ {
		close(l.commits[n].done)
	}
	l.commits = l.commits[n:]
	if low == l.next {
		l.behind = false
	}
}

// inMemory returns the first frame in memory with records at offset or behind it. There is
// none while there are records before those in memory that are being written.
func (l *Log) inMemory(offset uint64) (frame, bool) {
	if l.delay == 0 || l.committing != nil {
		return frame{}, false
	}
	for _, f := range l.pending {
		if f.end() > offset {
			f.data = bytes.Clone(f.data) // who gets the records may change them
			return f, true
		}
	}
	return frame{}, false
}
