package spoollog

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	readerPrefix = "reader-"
	saveEvery    = 10 * time.Second
	maxReader    = 16 << 10 // bytes of a reader's file that are read
)

// Reader is who reads a log under a name. The log keeps what it has not acknowledged, also
// while it is away, until the reader is removed.
type Reader struct {
	log  *Log
	name string

	id      uint64 // of the log that the file is about
	low     uint64 // guarded by log.mu: all before it is acknowledged
	saved   uint64 // guarded by log.mu: low as it is in the file
	savedAt time.Time
}

// Reader returns the reader of this name, which is durable from then on.
func (l *Log) Reader(name string) (*Reader, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, ErrClosed
	}
	if r := l.readers[name]; r != nil {
		return r, nil
	}
	r := &Reader{log: l, name: name}
	if err := r.write(); err != nil {
		return nil, fmt.Errorf("cannot add a reader to the spool in %s: %w", l.dir, err)
	}
	l.readers[name] = r
	return r, nil
}

// RemoveReader forgets a reader: nothing is kept for it any more.
func (l *Log) RemoveReader(name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.readers[name] == nil {
		return nil
	}
	if err := l.fs.Remove(l.readerPath(name)); err != nil {
		return fmt.Errorf("cannot remove a reader of the spool in %s: %w", l.dir, err)
	}
	delete(l.readers, name)
	l.forget()
	l.retain()
	l.notify()
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
	if offset <= r.low {
		return nil
	}
	r.low = offset
	l.forget()
	removed := l.retain()
	if removed || l.limits.Age > 0 {
		l.notify()
	}
	if removed || l.now().Sub(r.savedAt) >= saveEvery {
		r.save()
	}
	return nil
}

// Attach says that somebody reads under the name of the reader, until detach is called.
func (r *Reader) Attach() (detach func()) {
	l := r.log
	add := func(n int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open += n
	}
	add(1)
	return sync.OnceFunc(func() { add(-1) })
}

// Low returns the offset before which all is acknowledged.
func (r *Reader) Low() uint64 {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	return r.low
}

// Save writes where the reader is, if it moved on since.
func (r *Reader) Save() {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	if !r.log.closed {
		r.save()
	}
}

// save writes where the reader is. The file may lag behind: more is kept then.
func (r *Reader) save() {
	if r.saved == r.low {
		return
	}
	if err := r.write(); err != nil {
		r.log.log.Warn("cannot save where a reader of the spool is", "reader", r.name, "err", err)
	}
}

func (r *Reader) write() error {
	l, path := r.log, r.log.readerPath(r.name)
	text := fmt.Sprintf("%016x %016x %s", l.id, r.low, r.name)
	text = fmt.Sprintf("%08x %s\n", crc32.Checksum([]byte(text), castagnoli), text)
	temporary := path + ".tmp"
	_ = l.fs.Remove(temporary) // of a run that was killed
	f, err := l.fs.Create(temporary)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte(text))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := l.fs.Rename(temporary, path); err != nil {
		return err
	}
	if r.savedAt.IsZero() {
		if err := l.fs.SyncDir(l.dir); err != nil {
			return err
		}
	}
	r.saved, r.savedAt = r.low, l.now()
	return nil
}

func isReader(name string) bool {
	return strings.HasPrefix(name, readerPrefix) && !strings.HasSuffix(name, ".tmp")
}

// readerPath returns the file of a reader, whatever characters and length its name has.
func (l *Log) readerPath(name string) string {
	h := fnv.New64a()
	h.Write([]byte(name))
	return filepath.Join(l.dir, fmt.Sprintf("%s%016x", readerPrefix, h.Sum64()))
}

// loadReader reads the file of a reader. One that cannot be read is a reader that
// acknowledged nothing.
func (l *Log) loadReader(file string) error {
	r, err := parseReader(l.fs, filepath.Join(l.dir, file))
	if err != nil {
		l.log.Warn("cannot read where a reader of the spool is: all is kept until it comes back", "file", file, "err", err)
		r = &Reader{name: file}
	}
	r.log, r.saved, r.savedAt = l, r.low, l.now()
	l.readers[r.name] = r
	return nil
}

func parseReader(fs FS, path string) (*Reader, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, maxReader)
	n, _ := f.ReadAt(b, 0)
	sum, text, _ := strings.Cut(strings.TrimSuffix(string(b[:n]), "\n"), " ")
	if sum != fmt.Sprintf("%08x", crc32.Checksum([]byte(text), castagnoli)) {
		return nil, errors.New("its checksum is wrong")
	}
	r := &Reader{}
	parts := strings.SplitN(text, " ", 3)
	if len(parts) != 3 {
		return nil, errors.New("it is malformed")
	}
	if _, err := fmt.Sscanf(parts[0]+" "+parts[1], "%x %x", &r.id, &r.low); err != nil {
		return nil, err
	}
	r.name = parts[2]
	return r, nil
}

// waitFor waits for the next change of the log, unless there is something to read at offset.
func (l *Log) waitFor(ctx context.Context, offset uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.closed {
		if s := l.segmentAt(offset); s != nil && s.end > offset {
			return nil
		}
		if _, ok := l.inMemory(offset); ok {
			return nil
		}
		if err := l.wait(ctx, l.changed); err != nil {
			return err
		}
	}
	return ErrClosed
}
