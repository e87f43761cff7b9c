package spoollog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/conduit-agent/conduit/plugins/record"
)

// batchBytes and batchRecords are the approximate limits of a Read.
const (
	batchBytes   = 256 << 10
	batchRecords = 1000
)

// Cursor reads a log from a given offset. It must not be used concurrently.
type Cursor struct {
	log  *Log
	next uint64 // offset of the next record
	seg  *segment
	cur  cursor // frames of seg
	end  uint64 // offset after the last record of seg, as of the last lookup
	time time.Time

	most    int               // approximate number of bytes per Read
	reserve func(n int) error // see Bound
}

// Cursor returns a cursor that reads from offset.
func (l *Log) Cursor(offset uint64) *Cursor { return &Cursor{log: l, next: offset, most: batchBytes} }

// Bound limits the next Read to about most bytes. Read calls reserve before it allocates the memory for a large record.
func (c *Cursor) Bound(most int, reserve func(n int) error) {
	c.most, c.reserve, c.cur.reserve = min(most, batchBytes), reserve, reserve
}

// Close closes the file that the cursor reads.
func (c *Cursor) Close() {
	if c.cur.file != nil {
		_ = c.cur.file.Close() // it was only read
	}
	c.seg, c.cur = nil, cursor{}
}

// Next returns the offset of the record that the next Read starts with.
func (c *Cursor) Next() uint64 { return c.next }

// Time returns the write time of the first record that the last Read returned.
func (c *Cursor) Time() time.Time { return c.time }

// Wait waits for the next change of the log. It returns at once if Read has records to return.
func (c *Cursor) Wait(ctx context.Context) error {
	l := c.log
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.closed {
		if s := l.segments.at(c.next); s != nil && s.end > c.next {
			return nil
		}
		if _, ok := l.queue.inMemory(c.next); ok {
			return nil
		}
		if err := l.wait(ctx, l.changed); err != nil {
			return err
		}
	}
	return ErrClosed
}

// Read returns the next records before the offset end, and the offset of each record. It returns none when there are
// none yet.
func (c *Cursor) Read(end uint64) (records []record.Record, offsets []uint64, err error) {
	b := batch{end: end}
	for b.size < c.most && len(b.records) < batchRecords && c.next < end {
		f, ok, err := c.frame()
		if err != nil {
			c.Close() // the buffered part of the file may differ from the file
			return b.records, b.offsets, fmt.Errorf("cannot read the spool in %s: %w", c.log.dir, err)
		}
		if !ok {
			break
		}
		if len(b.records) == 0 {
			c.time = f.time
		}
		if err := b.take(f, c.next); err != nil && c.seg != nil { // the checksum is correct: written this way
			c.damage(max(c.next, f.first), f.end(), int64(len(f.data)))
		}
		c.next = min(f.end(), end)
		if f.end() > end && c.cur.file != nil { // the rest is for a later Read
			c.cur = cursor{identity: c.cur.identity, file: c.cur.file, limit: c.cur.limit,
				pos: c.cur.pos - int64(len(f.data)), reserve: c.reserve}
		}
	}
	return b.records, b.offsets, nil
}

// frame returns the first valid frame with records at or after next, if there is one.
func (c *Cursor) frame() (f frame, ok bool, err error) {
	for {
		more, err := c.seek()
		if err != nil {
			return f, false, err
		}
		if !more {
			return c.memory()
		}
		switch f, err = c.cur.next(); {
		case errors.Is(err, io.EOF):
			c.leave(f)
		case err != nil:
			return f, false, err
		case f.first < c.end && f.end() > c.next: // not left by a failed write, not read yet
			if f.first > c.next {
				c.damage(c.next, f.first, f.skipped)
			}
			return f, true, nil
		}
	}
}

// memory returns the next frame that is in memory only.
func (c *Cursor) memory() (f frame, ok bool, err error) {
	l := c.log
	l.mu.Lock()
	defer l.mu.Unlock()
	f, ok = l.queue.inMemory(c.next)
	if ok && len(f.data) > readBytes && c.reserve != nil {
		l.mu.Unlock()
		err = c.reserve(len(f.data))
		l.mu.Lock()
		f, ok = l.queue.inMemory(c.next)
	}
	if !ok || err != nil || l.segments.at(c.next) != nil { // it was written in the meantime
		return frame{}, false, err
	}
	f.data = bytes.Clone(f.data) // the caller may modify the records
	return f, true, nil
}

// damage counts the records in [from, to) as unreadable.
func (c *Cursor) damage(from, to uint64, bytes int64) {
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	c.log.segments.damage(c.seg, from, to, bytes)
}

// batch collects the records of a Read.
type batch struct {
	end     uint64 // offset after the last record to take
	records []record.Record
	offsets []uint64
	size    int
}

// take appends the records of f, starting with the record at offset next.
func (b *batch) take(f frame, next uint64) error {
	b.size += len(f.data)
	n := len(b.records)
	if n == 0 { // the following frames are probably similar
		capacity := max(f.count, min(f.count*batchBytes/len(f.data), batchRecords+frameRecords))
		b.records, b.offsets = make([]record.Record, 0, capacity), make([]uint64, 0, capacity)
	}
	records, err := f.records(slices.Grow(b.records, f.count))
	if err != nil {
		return err
	}
	if f.first >= next && f.end() <= b.end {
		for i := range f.count {
			b.offsets = append(b.offsets, f.first+uint64(i))
		}
		b.records = records
		return nil
	}
	kept := n
	for i := range f.count {
		if offset := f.first + uint64(i); offset >= next && offset < b.end {
			records[kept] = records[n+i]
			b.offsets = append(b.offsets, offset)
			kept++
		}
	}
	clear(records[kept:])
	b.records = records[:kept]
	return nil
}

// seek sets seg to the segment that contains next, and reports whether it has more to read.
func (c *Cursor) seek() (more bool, err error) {
	l := c.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false, ErrClosed
	}
	s := l.segments.at(c.next)
	if s == nil {
		return false, nil
	}
	if s != c.seg {
		c.Close()
		file, err := l.fs.Open(s.path)
		if err != nil {
			return false, err
		}
		c.seg, c.cur = s, cursor{identity: s.identity, file: file, reserve: c.reserve}
		c.next = max(c.next, s.base)
	}
	c.cur.limit, c.end = max(c.cur.limit, s.size), s.end
	return c.next < s.end, nil
}

// leave moves to the next segment after all frames of the current one were read.
func (c *Cursor) leave(rest frame) {
	if c.next < c.end {
		c.damage(c.next, c.end, rest.skipped)
		c.next = c.end
	}
}
