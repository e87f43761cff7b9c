package spoollog

import (
	"context"
	"errors"
	"time"
)

// errLate says that the readers did not acknowledge in time.
var errLate = errors.New("the readers do not keep up")

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
	l.queue.delay, l.queue.behind = delay, true
	if delay == 0 || l.segments.active != nil {
		return nil
	}
	// The offsets of records in memory are never given to others: not even when this run
	// writes nothing more than the name of a segment.
	c, first, now := l.queue.reserve(), l.queue.next, l.now()
	l.mu.Unlock()
	err := l.segments.rotate(0, 0, first, now)
	l.mu.Lock()
	l.queue.done([]*Commit{c}, nil) // it has no records
	l.notify()
	return err
}

// Memory counts what a log holds in memory.
type Memory interface {
	// Take counts n bytes, and reports false, having counted none, when that is too much.
	Take(n int) bool
	// Add counts n bytes more whatever there is, or -n less.
	Add(n int)
	// Room returns how many bytes are free.
	Room() int
	// Close counts nothing any more.
	Close()
}

// memoryInterval is the time between two checks of the memory.
const memoryInterval = 100 * time.Millisecond

// SetMemory has the log count what it holds in memory, until it is closed. Without room, records go to the
// disk at once, whether readers keep up or not. A log that counts already closes m.
func (l *Log) SetMemory(m Memory) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.queue.memory != nil || l.closed {
		m.Close()
		return
	}
	l.queue.memory = m
	m.Add(int(l.queue.bytes + l.queue.writing))
}

// Short reports whether there was no memory for what was appended last.
func (l *Log) Short() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue.short
}

// exclusive waits until no commit is under way.
func (l *Log) exclusive(ctx context.Context) error {
	for l.queue.committing != nil {
		if err := l.wait(ctx, l.queue.committing.done); err != nil {
			return err
		}
	}
	if l.closed {
		return ErrClosed
	}
	return nil
}

// readerDelay returns how long a commit waits for the readers before it is written.
func (l *Log) readerDelay(c *Commit) time.Duration {
	if l.readers.attached == 0 || l.queue.memory != nil && l.queue.memory.Room() == 0 {
		return 0
	}
	return l.queue.readerDelay(c)
}

// waitForReaders waits until the commit is done, or for d; then the readers do not keep up. It may return
// before, to have the memory checked again.
func (l *Log) waitForReaders(ctx context.Context, c *Commit, d time.Duration) error {
	once := min(d, memoryInterval)
	ctx, cancel := context.WithTimeoutCause(ctx, once, errLate)
	defer cancel()
	err := l.wait(ctx, c.done)
	if errors.Is(err, errLate) {
		l.queue.behind = l.queue.behind || once == d
		return nil
	}
	return err
}
