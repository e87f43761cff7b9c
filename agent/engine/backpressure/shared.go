package backpressure

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Shared bounds the memory that the records of several sources take together and, if it is strict, other memory that
// grows with them (Part). A source that holds less than its own part may always read, so that it waits for no other
// source.
type Shared struct {
	Bytes int64
	// Each is the part of a source. In a strict bound it shrinks when there are so many sources that their parts would
	// be more than half of Bytes.
	Each int
	// Strict makes sources reserve memory before they read. A single source at a time may exceed Bytes, so that a
	// record larger than the free memory still passes.
	Strict bool

	used    atomic.Int64
	sources atomic.Int64 // accounts

	once  sync.Once
	parts [kinds]Part

	mu       sync.Mutex // guards the following fields and, if the bound is strict, the accounts
	waiters  []*waiter  // longest waiting first
	waiting  atomic.Int64
	beyond   *Account              // the account that may exceed Bytes
	notified map[*Account]struct{} // accounts to notify when their memory is wanted
	unproven map[*Account]struct{} // whose Read has not returned, with a reservation that their source did not ask for
	armed    bool                  // a timer will release the reservations of idle sources
}

// waiter is a source that waits for n bytes.
type waiter struct {
	account *Account
	n       int64
	unasked bool // the source did not ask for them
	granted chan struct{}
}

const (
	// minEach is enough for a source of small records to proceed.
	minEach = 4 << 10
	// A source whose Read takes this long waits for records. Its reservation goes to the sources that wait for memory.
	idleAfter = 250 * time.Millisecond
)

// NewShared returns the bound for the sources of an agent: four of them may fill their windows, and any number of them
// has enough to read and write at the same time.
func NewShared() *Shared { return &Shared{Bytes: 16 << 20, Each: 512 << 10} }

// Within returns the strict bound for the sources of an agent with this much memory in bytes. Connectors make several
// copies of a large record at the same time, such as its JSON, and the agent itself takes the rest.
func Within(memory int64) *Shared {
	return &Shared{Bytes: min(max(memory/8, 1<<20), 256<<20), Each: 512 << 10, Strict: true}
}

// Use is how much of a bound is used.
type Use struct {
	Bytes   int64
	Sources int64        // by outstanding records
	Parts   [kinds]int64 // by Kind
	Waiting int64        // sources that wait for memory
}

// Use returns how much of the bound is used.
func (m *Shared) Use() Use {
	u := Use{Bytes: m.Bytes, Sources: m.used.Load(), Waiting: m.waiting.Load()}
	for i := range u.Parts {
		u.Parts[i] = m.parts[i].used.Load()
		if m.Strict {
			u.Sources -= u.Parts[i]
		}
	}
	u.Sources = max(0, u.Sources)
	return u
}

// allows reports whether a source that holds this many bytes may read.
func (m *Shared) allows(held int) bool {
	return m == nil || held < m.each() || m.used.Load() < m.Bytes
}

// each returns the part of a source.
func (m *Shared) each() int {
	if !m.Strict {
		return m.Each
	}
	return min(m.Each, max(minEach, int(m.Bytes/2/max(1, m.sources.Load()))))
}

// hasRoom reports whether, with this many bytes used, small batches need no reservation: no account waits, and at least
// half is free.
func (m *Shared) hasRoom(used int64) bool {
	return used <= m.Bytes/2 && m.waiting.Load() == 0
}

// fits reports whether a may take n bytes more. a may be the one account that exceeds Bytes. The caller holds mu.
func (m *Shared) fits(a *Account, n int64) bool {
	if m.used.Load()+n <= m.Bytes {
		return true
	}
	if m.beyond != nil {
		m.beyond.within()
	}
	if m.beyond == nil {
		m.beyond = a
	}
	return m.beyond == a
}

// grant grants freed memory to waiters. The caller holds mu.
func (m *Shared) grant() {
	for len(m.waiters) > 0 {
		w := m.waiters[0]
		if !m.fits(w.account, w.n) {
			m.arm()
			return
		}
		m.pass(0)
	}
}

// pass grants the request of the waiter at index i. The caller holds mu.
func (m *Shared) pass(i int) {
	w := m.waiters[i]
	m.remove(i)
	w.account.reserve(w.n, w.unasked)
	close(w.granted)
}

// remove removes the waiter at index i from the list. The caller holds mu.
func (m *Shared) remove(i int) {
	m.waiters[i].account.waiter = nil
	m.waiters = slices.Delete(m.waiters, i, i+1)
	m.waiting.Add(-1)
}

// wanted returns the accounts to notify that other accounts need their memory. The caller holds mu.
func (m *Shared) wanted() (all []*Account) {
	for a := range m.notified {
		if a.Contended() {
			all = append(all, a)
		}
	}
	return all
}

// arm starts the timer that releases the reservations of idle sources. The caller holds mu.
func (m *Shared) arm() {
	if m.armed || len(m.unproven) == 0 {
		return
	}
	m.armed = true
	time.AfterFunc(idleAfter, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.armed = false
		for a := range m.unproven {
			if time.Since(a.since) >= idleAfter {
				delete(m.unproven, a)
				a.release(a.reserved.Load())
			}
		}
		m.grant()
	})
}
