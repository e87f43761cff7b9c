package spoollog

import (
	"context"
	"fmt"
	"time"
)

// Commit is the result of appending a group of records.
type Commit struct {
	log   *Log
	since time.Time
	end   uint64 // offset after its last record; guarded by log.mu
	done  chan struct{}
	err   error // set before done is closed
}

// Writer appends to a log. After a failed commit it refuses further appends, and the records that it appended in the
// meantime are not in the log either. So no later record precedes the records that have to be written again.
type Writer struct {
	log      *Log
	failures int // value of queue.failures when the writer was created
}

// Writer returns a new writer.
func (l *Log) Writer() *Writer {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &Writer{l, l.queue.failures}
}

// Append adds the frames of an Encode. It returns at once unless the log is full and set to block. The records are
// durable once Wait of the Commit returns nil. A nil Commit without an error means that the log is full and the records
// were dropped.
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
		dropped, wait, err := l.retention.makeSpace(frames)
		if dropped || err != nil {
			return nil, err
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

// Wait returns nil once the records are synced, or the error of the commit. After an error the records may or may not
// be in the log. A waiting goroutine writes for all others (group commit).
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

// Flush writes all appended records to disk without waiting for readers.
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

// commit writes and syncs the pending frames. It releases the lock while it does.
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
