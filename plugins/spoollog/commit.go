package spoollog

import (
	"context"
	"fmt"
	"time"
)

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
	return &Writer{l, l.queue.failures}
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
		if w.failures != l.queue.failures {
			return nil, ErrFailed
		}
		dropped, wait := l.retention.makeSpace(frames)
		if dropped {
			return nil, nil
		}
		if !wait {
			break
		}
		if err := l.wait(ctx, l.changed); err != nil {
			return nil, err
		}
	}
	c := l.queue.append(frames, l.now())
	if l.queue.delay > 0 {
		l.notify()
	}
	return c, nil
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
		if l.queue.committing != nil {
			if err := l.wait(ctx, l.queue.committing.done); err != nil {
				return err
			}
		} else if d := l.readerDelay(c); d > 0 {
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
	if len(l.queue.commits) > 0 {
		l.commit()
	}
	return nil
}

// commit writes and syncs what is pending. The lock is not held meanwhile.
func (l *Log) commit() {
	commits, frames := l.queue.take()
	l.mu.Unlock()
	err := l.segments.write(frames)
	l.mu.Lock()
	if err != nil {
		l.segments.abandon()
		err = fmt.Errorf("cannot write to the spool in %s: %w", l.dir, err)
	}
	l.queue.done(commits, err)
	l.retention.retain()
	l.notify()
}
