package spoollog

import (
	"context"
	"errors"
	"time"
)

// errLate means that the readers did not acknowledge in time.
var errLate = errors.New("the readers do not keep up")

// SetHybrid keeps records in memory for at most delay while they wait for the readers. Only records that the readers
// did not acknowledge in that time are written to disk. With a zero delay all records are written to disk.
//
// When the readers do not keep up, or none is open, records are written to disk at once, until the readers have
// acknowledged all records.
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
	// The offsets of records in memory are never reused, even if this run writes nothing but the name of a segment.
	c, first, now := l.queue.reserve(), l.queue.next, l.now()
	l.mu.Unlock()
	err := l.segments.rotate(0, 0, first, now)
	l.mu.Lock()
	l.queue.done([]*Commit{c}, nil) // the commit has no records
	l.notify()
	return err
}

// Memory accounts for the memory that a log uses.
type Memory interface {
	// Take reserves n bytes. If fewer are free, it reserves nothing and returns false.
	Take(n int) bool
	// Add reserves n bytes regardless of the limit, or frees -n bytes.
	Add(n int)
	// Room returns the number of free bytes.
	Room() int
	// Close frees all reserved bytes and ends the accounting.
	Close()
}

// memoryInterval is the time between two checks of the available memory.
const memoryInterval = 100 * time.Millisecond

// SetMemory accounts the memory of the log with m until the log is closed. Without room, records are written to disk at
// once, even if the readers keep up. If the log already has a Memory, SetMemory closes m.
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

// Short reports whether there was no memory for the last append.
func (l *Log) Short() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue.short
}

// exclusive waits until no commit is in progress.
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

// readerDelay returns the time that a commit waits for the readers before it is written.
func (l *Log) readerDelay(c *Commit) time.Duration {
	if l.readers.attached == 0 || l.queue.memory != nil && l.queue.memory.Room() == 0 {
		return 0
	}
	return l.queue.readerDelay(c)
}

// waitForReaders waits until the commit is done, or for d; after that the readers count as too slow. It may return
// early so that the caller checks the memory again.
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
