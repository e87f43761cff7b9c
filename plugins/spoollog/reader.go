package spoollog

import (
	"fmt"
	"sync"
)

// Reader is a named reader of a log. The log keeps the records that the reader has not acknowledged, even while it is
// not attached, until the reader is removed.
type Reader struct {
	log *Log
	at  *position
}

// Reader returns the reader with this name. The reader is durable when Reader returns.
func (l *Log) Reader(name string) (*Reader, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, ErrClosed
	}
	p, err := l.readers.add(name)
	if err != nil {
		return nil, fmt.Errorf("cannot add a reader to the spool in %s: %w", l.dir, err)
	}
	return &Reader{l, p}, nil
}

// RemoveReader removes a reader. The log no longer keeps records for it.
func (l *Log) RemoveReader(name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	removed, err := l.readers.remove(name)
	if err != nil {
		return fmt.Errorf("cannot remove a reader of the spool in %s: %w", l.dir, err)
	}
	if removed {
		l.queue.forget(l.readers.low())
		l.retention.retain()
		l.notify()
	}
	return nil
}

// Acknowledge records that the reader no longer needs the records before offset, even after a crash.
func (r *Reader) Acknowledge(offset uint64) error {
	l := r.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	if offset <= r.at.low {
		return nil
	}
	r.at.low = offset
	l.queue.forget(l.readers.low())
	removed := l.retention.retain()
	if removed || l.retention.Age > 0 {
		l.notify()
	}
	if removed || l.now().Sub(r.at.savedAt) >= saveEvery {
		l.readers.save(r.at)
	}
	return nil
}

// Attach marks the reader as in use until detach is called.
func (r *Reader) Attach() (detach func()) {
	l := r.log
	add := func(n int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.readers.attached += n
	}
	add(1)
	return sync.OnceFunc(func() { add(-1) })
}

// Low returns the offset up to which all records are acknowledged.
func (r *Reader) Low() uint64 {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	return r.at.low
}

// Behind returns the number of records that the reader has not acknowledged.
func (r *Reader) Behind() uint64 {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	return r.log.from(r.at.low)
}

// Save saves the position of the reader if it has changed.
func (r *Reader) Save() {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	if !r.log.closed {
		r.log.readers.save(r.at)
	}
}
