package backpressure

import (
	"math"
	"sync/atomic"
)

// Kind is a use of the memory of a Shared bound other than the records of sources.
type Kind int

// The kinds of use.
const (
	Inspectors  Kind = iota // records on their way to clients that inspect them
	Spools                  // records of spools that are not on disk
	Clients                 // data that connectors hold of outside systems, or for them
	DeadLetters             // dead letters that are being written or shown
	kinds
)

// Part is the memory that a kind of use takes from a Shared bound. It leaves a quarter of a strict bound to sources,
// and takes nothing while a source waits. If the bound is not strict, the part only counts.
type Part struct {
	shared *Shared
	used   atomic.Int64
	beyond atomic.Pointer[Holder] // the holder that has more than was free
}

// Part returns the part of a kind of use.
func (m *Shared) Part(k Kind) *Part {
	m.once.Do(func() {
		for i := range m.parts {
			m.parts[i].shared = m
		}
	})
	return &m.parts[k]
}

// Take takes n bytes and reports whether there is space for them. The caller returns them with Add.
func (p *Part) Take(n int) bool {
	m := p.shared
	if !m.Strict {
		p.used.Add(int64(n))
		return true
	}
	if m.waiting.Load() > 0 {
		return false
	}
	if m.used.Add(int64(n)) > m.Bytes/4*3 {
		p.free(n)
		return false
	}
	p.used.Add(int64(n))
	return true
}

// Add adds n bytes regardless of the bound, or returns -n bytes.
func (p *Part) Add(n int) {
	p.used.Add(int64(n))
	switch m := p.shared; {
	case !m.Strict:
	case n < 0:
		p.free(-n)
	default:
		m.used.Add(int64(n))
	}
}

// free makes n bytes of the bound available to waiting sources.
func (p *Part) free(n int) {
	m := p.shared
	if m.hasRoom(m.used.Add(int64(-n))) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.grant()
}

// Holder is the memory that one user takes from a part. It always gets as much as a source has as its part. A single
// holder at a time may exceed the free memory, so that larger data still passes.
type Holder struct {
	part *Part
	held atomic.Int64
}

// Holder returns a holder. The caller must close it.
func (p *Part) Holder() *Holder { return &Holder{part: p} }

// Take takes n bytes and reports whether there is space for them. The caller returns them with Add.
func (h *Holder) Take(n int) bool {
	p := h.part
	each := int64(p.shared.each())
	switch {
	case h.held.Load()+int64(n) <= each:
		p.Add(n)
	case p.Take(n):
	case p.beyond.CompareAndSwap(nil, h):
		p.Add(n)
	default:
		return false
	}
	h.held.Add(int64(n))
	return true
}

// Add adds n bytes regardless of the bound, or returns -n bytes.
func (h *Holder) Add(n int) {
	h.part.Add(n)
	if h.held.Add(int64(n)) <= int64(h.part.shared.each()) {
		h.part.beyond.CompareAndSwap(h, nil)
	}
}

// Room returns how many bytes are free.
func (h *Holder) Room() int {
	m := h.part.shared
	if !m.Strict {
		return math.MaxInt
	}
	return max(0, int(m.Bytes/4*3-m.used.Load()))
}

// Close returns all memory of the holder.
func (h *Holder) Close() {
	h.Add(-int(h.held.Load()))
	h.part.beyond.CompareAndSwap(h, nil)
}
