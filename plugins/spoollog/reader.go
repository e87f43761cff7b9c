package spoollog

import (
	"fmt"
	"sync"
)

// Reader is who reads a log under a name. The log keeps what it has not acknowledged, also
// while it is away, until the reader is removed.
type Reader struct {
	log *Log
	at  *position
}

// Reader returns the reader of this name, which is durable from then on.
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

// RemoveReader forgets a reader: nothing is kept for it any more.
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

// Acknowledge says that the reader needs nothing before offset any more, after any crash.
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

// Low returns the offset before which all is acknowledged.
func (r *Reader) Low() uint64 {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	return r.at.low
}

// Behind returns how many records the reader has not acknowledged.
func (r *Reader) Behind() uint64 {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	return r.log.from(r.at.low)
}

// Save writes where the reader is, if it moved on since.
func (r *Reader) Save() {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	if !r.log.closed {
		r.log.readers.save(r.at)
	}
}
