package backpressure

import (
	"context"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec/notify"
)

var _ sdk.Memory = (*Account)(nil)

// Account counts the memory that a source takes from a Shared bound. A nil Account has no bound. If the bound is not
// strict, the account only counts.
type Account struct {
	shared *Shared

	wake     notify.Signal // calls onWait again; nil: never
	onWait   func() bool   // see Notify; nil: none
	onWanted func()        // see Notify; nil: none

	batch    int64        // owned by the goroutine that reads: largest size in bytes of the next Read
	held     atomic.Int64 // by outstanding records
	small    atomic.Bool  // the previous batches were small: it need not reserve while there is room
	reserved atomic.Int64 // for the current Read, or the batch that it returned; written with shared.mu held

	// The following fields are guarded by shared.mu.
	expected int64     // estimated bytes of the next batch, from the previous ones
	asks     bool      // the source asks before it takes memory for large records
	since    time.Time // when the Read of the reservation began
	waiter   *waiter   // while it waits for memory
}

// Join returns an account for a source. unasked is the number of bytes that its first Read may return without asking
// for them.
func (m *Shared) Join(unasked int) *Account {
	if m == nil {
		return nil
	}
	m.sources.Add(1)
	if m.Strict {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.unproven == nil {
			m.unproven = map[*Account]struct{}{}
		}
	}
	return &Account{shared: m, expected: int64(max(unasked, minEach))}
}

// Notify registers two callbacks. onWait is called when the source begins to wait for memory, and again while it waits
// whenever wake is notified. When onWait returns true the source stops waiting and takes the memory all the same.
// onWanted is called when another source begins to wait for memory that this source has beyond its own part. Notify
// must be called before the first Begin.
func (a *Account) Notify(wake notify.Signal, onWait func() bool, onWanted func()) {
	if a == nil {
		return
	}
	m := a.shared
	m.mu.Lock()
	defer m.mu.Unlock()
	a.wake, a.onWait, a.onWanted = wake, onWait, onWanted
	if m.Strict {
		if m.notified == nil {
			m.notified = map[*Account]struct{}{}
		}
		m.notified[a] = struct{}{}
	}
}

// Contended reports whether others wait for memory that the source has beyond its own part.
func (a *Account) Contended() bool {
	return a != nil && a.shared.waiting.Load() > 0 && a.held.Load() > int64(a.shared.each())
}

// Leave removes the source and the memory that it holds from the bound.
func (a *Account) Leave(held int) {
	if a == nil {
		return
	}
	m := a.shared
	m.sources.Add(-1)
	a.Add(-held)
	if !m.Strict {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.unproven, a)
	delete(m.notified, a)
	a.release(a.reserved.Load())
	m.grant()
}

// Add records that the source holds n bytes more.
func (a *Account) Add(n int) {
	if a == nil || n == 0 {
		return
	}
	m := a.shared
	if !m.Strict {
		m.used.Add(int64(n))
		return
	}
	a.held.Add(int64(n))
	if n > 0 && a.reserved.Load() == 0 || n < 0 && m.hasRoom(m.used.Add(int64(n))) {
		if n > 0 {
			m.used.Add(int64(n))
		}
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if n < 0 {
		a.fewer()
		m.grant()
		return
	}
	covered := min(int64(n), a.reserved.Load())
	a.reserved.Add(-covered)
	m.used.Add(int64(n) - covered)
}

// Context returns a context for Reads, by which a source can ask for memory.
func (a *Account) Context(ctx context.Context) context.Context {
	if a == nil || !a.shared.Strict {
		return sdk.WithMemory(ctx, nil) // saves each Read a search through all parent contexts
	}
	return sdk.WithMemory(ctx, a)
}

// Begin waits until there is memory for the next Read.
func (a *Account) Begin(ctx context.Context) error {
	if a == nil || !a.shared.Strict {
		return nil
	}
	m := a.shared
	each := int64(m.each())
	a.batch = math.MaxInt
	if a.small.Load() && a.reserved.Load() == 0 && m.hasRoom(m.used.Load()) {
		return nil
	}
	m.mu.Lock()
	a.release(a.reserved.Load())
	if m.used.Load() > m.Bytes/2 {
		a.batch = max(each-a.held.Load(), minEach)
	}
	n := a.expected
	if a.asks {
		n = min(n, max(each-a.held.Load(), minEach))
	}
	return a.wait(ctx, n, true)
}

// End records that the Read returned n bytes.
func (a *Account) End(n int) {
	if a == nil || !a.shared.Strict {
		return
	}
	m := a.shared
	if a.reserved.Load() == 0 && n <= m.each() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.unproven, a)
	a.expected = max(int64(n), a.expected/2)
	a.small.Store(a.expected <= int64(m.each()))
	if over := int64(n) - a.reserved.Load(); over > 0 {
		a.reserve(over, false)
	} else {
		a.release(-over)
		m.grant()
	}
}

// Batch implements sdk.Memory.
func (a *Account) Batch() int {
	m := a.shared
	m.mu.Lock()
	defer m.mu.Unlock()
	a.asks = true
	return int(a.batch)
}

// Reserve implements sdk.Memory.
func (a *Account) Reserve(ctx context.Context, n int) error {
	m := a.shared
	m.mu.Lock()
	a.asks = true
	delete(m.unproven, a) // its reservation is in use
	if more := int64(n) - a.reserved.Load(); more > 0 {
		return a.wait(ctx, more, false)
	}
	m.mu.Unlock()
	return nil
}

// wait reserves n bytes, or waits until they are free. The caller holds mu, which wait releases.
func (a *Account) wait(ctx context.Context, n int64, unasked bool) error {
	m := a.shared
	if a.held.Load()+a.reserved.Load()+n <= int64(m.each()) || len(m.waiters) == 0 && m.fits(a, n) || m.beyond == a {
		a.reserve(n, unasked)
		m.mu.Unlock()
		return nil
	}
	w := &waiter{account: a, n: n, unasked: unasked, granted: make(chan struct{})}
	a.waiter = w
	m.waiters = append(m.waiters, w)
	m.waiting.Add(1)
	m.grant() // memory may have been released before the waiter was in the list
	m.arm()
	wanted := m.wanted()
	m.mu.Unlock()
	for _, other := range wanted {
		other.onWanted()
	}
	err := a.await(ctx, w)
	m.mu.Lock() // Leave releases memory that was granted meanwhile
	defer m.mu.Unlock()
	if i := slices.Index(m.waiters, w); i >= 0 {
		m.remove(i)
		m.grant()
	}
	return err
}

// await waits until w is granted, ctx ends, or onWait returns true.
func (a *Account) await(ctx context.Context, w *waiter) error {
	for a.onWait == nil || !a.onWait() {
		select {
		case <-w.granted:
			return nil
		case <-a.wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// reserve takes n bytes. If the source did not ask for them, it may be idle.
func (a *Account) reserve(n int64, unasked bool) {
	m := a.shared
	a.reserved.Add(n)
	m.used.Add(n)
	if unasked && a.held.Load()+a.reserved.Load() > int64(m.each()) {
		a.since = time.Now()
		m.unproven[a] = struct{}{}
	}
}

func (a *Account) release(n int64) {
	a.reserved.Add(-n)
	a.shared.used.Add(-n)
	a.fewer()
}

// within lets another source exceed the bound once this one holds little.
func (a *Account) within() {
	if m := a.shared; m.beyond == a && a.held.Load()+a.reserved.Load() <= int64(m.each()) {
		m.beyond = nil
	}
}

// fewer records that the source now takes less than before: it proceeds with its own part, even if other sources wait
// before it.
func (a *Account) fewer() {
	a.within()
	m := a.shared
	if w := a.waiter; w != nil && a.held.Load()+a.reserved.Load()+w.n <= int64(m.each()) {
		m.pass(slices.Index(m.waiters, w))
	}
}
