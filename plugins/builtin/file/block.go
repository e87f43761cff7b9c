package file

import (
	"bytes"
	"sync"
	"sync/atomic"

	"github.com/conduit-agent/conduit/plugins/record"
)

// Bounds of a block. Fewer lines cost less as records, and more would take much memory if they became records.
const (
	smallestBlock = 4 << 10
	largestBlock  = 2 * largeRead
	blockLines    = 2048
)

// block is the text of consecutive lines of a file. It implements record.Lines.
type block struct {
	memory  *memory // of text; nil: not reused
	text    []byte
	n       int    // lines
	place   place  // before the lines; without head
	head    []byte // beginning of the file up to headBytes, as far as read
	before  window // content before the end
	prefix  []byte // of the positions
	path    string
	content int // sum of Record.Content
}

var _ record.Lines = (*block)(nil)

// block returns the complete lines at the beginning of the buffer, at most as many as a block may have, whose positions
// begin with prefix. It returns nil if there are few, or if a line needs a closer look.
func (s *single) block(prefix []byte) *block {
	if s.file == nil || s.begins != nil || s.skip > 0 || s.hole || s.long || s.inLine {
		return nil
	}
	end := s.scanned + bytes.LastIndexByte(s.buf[s.scanned:], '\n') + 1
	if end <= max(s.scanned, smallestBlock) || end > largestBlock {
		return nil
	}
	text := s.buf[:end:end]
	if bytes.IndexByte(text, 0) >= 0 { // maybe a hole
		return nil
	}
	if s.offset == 0 && bytes.HasPrefix(text, byteOrderMark) {
		return nil
	}
	n := bytes.Count(text, newline)
	if n > blockLines {
		text, n = firstLines(text, blockLines), blockLines
	}
	b := &block{memory: s.memory.share(), text: text, n: n, head: s.head, before: s.before, prefix: prefix,
		place: place{offset: s.offset, line: s.line, inode: s.inode, switches: s.switches, before: s.before},
		path:  s.path, content: len(text) - n + digits(s.line+1, s.line+int64(n))}
	b.before.addLines(text)
	s.buf, s.scanned, s.blocks = s.buf[len(text):], 0, true
	s.offset, s.line, s.before = s.offset+int64(len(text)), s.line+int64(n), b.before
	s.start, s.omitted, s.identity = s.line, omitted{}, headIdentity{}
	return b
}

var newline, byteOrderMark = []byte{'\n'}, []byte("\xef\xbb\xbf")

// firstLines returns the first n lines of text, which has more.
func firstLines(text []byte, n int) []byte {
	end := 0
	for range n {
		end += bytes.IndexByte(text[end:], '\n') + 1
	}
	return text[:end:end]
}

// digits returns the number of decimal digits of all numbers from first to last, which are positive.
func digits(first, last int64) (n int) {
	for d, low := 1, int64(1); low <= last; d++ {
		high := low*10 - 1
		if high < low { // more than fit
			high = last
		}
		if k := min(last, high) - max(first, low) + 1; k > 0 {
			n += d * int(k)
		}
		if high >= last {
			break
		}
		low = high + 1
	}
	return n
}

// Text implements record.Lines.
func (b *block) Text() []byte { return b.text }

// Len implements record.Lines.
func (b *block) Len() int { return b.n }

// Content implements record.Lines.
func (b *block) Content() int { return b.content }

// Metadata implements record.Lines.
func (b *block) Metadata() record.Metadata { return record.Metadata{{Key: keyPath, Value: b.path}} }

// Position implements record.Lines.
func (b *block) Position(i int) record.Position {
	p, before := b.place, b.before
	p.line += int64(i) + 1
	text := b.text
	if i < b.n-1 {
		text = firstLines(text, i+1)
		before = p.before
		before.addLines(text)
	}
	p.offset, p.before = p.offset+int64(len(text)), before
	p.head = headHash(b.head, p.offset)
	dst := make([]byte, len(b.prefix), len(b.prefix)+textPerRecord)
	copy(dst, b.prefix)
	return p.append(dst)
}

// Records implements record.Lines.
func (b *block) Records() []record.Record {
	to := newMaker(b.n, b.path, b.prefix)
	p, identity := b.place, headIdentity{}
	for text := b.text; len(text) > 0; {
		i := bytes.IndexByte(text, '\n')
		p.before.add(text[:i+1])
		p.offset, p.line = p.offset+int64(i)+1, p.line+1
		p.head = identity.hashBefore(b.head, p.offset)
		to.add(&p, p.line, text[:i:i])
		text = text[i+1:]
	}
	return to.records
}

// Free implements record.Lines.
func (b *block) Free() { b.memory.release() }

// memory is a buffer of largeRead bytes that blocks share. It is reused once no block needs it. A nil memory is not
// reused. A line that became a record keeps its memory.
type memory struct {
	buf  []byte
	uses atomic.Int32 // by blocks, and by the source until it reads into another buffer
}

var memories = sync.Pool{New: func() any { return &memory{buf: make([]byte, largeRead)} }}

func newMemory() *memory {
	m := memories.Get().(*memory)
	m.uses.Store(1)
	return m
}

// share adds a use.
func (m *memory) share() *memory {
	if m != nil {
		m.uses.Add(1)
	}
	return m
}

// release ends a use.
func (m *memory) release() {
	if m != nil && m.uses.Add(-1) == 0 {
		memories.Put(m)
	}
}
