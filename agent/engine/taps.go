package engine

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/conduit-agent/conduit/plugins/record"
)

// Taps lets observers see the records that pass connectors, whichever run they pass in.
// A connector that nobody observes costs one atomic load per batch. The zero Taps is ready.
type Taps struct {
	observing atomic.Int32 // observers there are

	mu     sync.Mutex
	points map[string]*tap // guarded by mu: those in use, by what they observe
}

// tap is where the records of one connector pass. A nil tap has no observers.
type tap struct {
	uses      int                         // guarded by Taps.mu: runs and observers
	observers atomic.Pointer[[]*observer] // replaced, never modified
}

type observer struct{ observe func(b *record.Batch) }

// Observe calls f with every batch that passes the connector, a source's after reading
// and a destination's before writing, until stop is called. f must return at once and
// must not change the records; it may keep them. It may be called concurrently.
func (t *Taps) Observe(connectorID string, f func(b *record.Batch)) (stop func()) {
	p, o := t.acquire(connectorID), &observer{f}
	t.change(p, func(all []*observer) []*observer { return append(all, o) })
	t.observing.Add(1)
	return sync.OnceFunc(func() {
		t.change(p, func(all []*observer) []*observer {
			return slices.DeleteFunc(all, func(other *observer) bool { return other == o })
		})
		t.observing.Add(-1)
		t.release(connectorID)
	})
}

// change replaces the observers of p by what f makes of a copy of them.
func (t *Taps) change(p *tap, f func(all []*observer) []*observer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []*observer
	if old := p.observers.Load(); old != nil {
		all = slices.Clone(*old)
	}
	if all = f(all); len(all) == 0 {
		p.observers.Store(nil)
		return
	}
	p.observers.Store(&all)
}

// acquire returns the tap of a connector, to be released after use.
func (t *Taps) acquire(connectorID string) *tap {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.points[connectorID]
	if p == nil {
		p = &tap{}
		if t.points == nil {
			t.points = map[string]*tap{}
		}
		t.points[connectorID] = p
	}
	p.uses++
	return p
}

// release ends a use of the tap of a connector, which is forgotten with the last one.
func (t *Taps) release(connectorID string) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.points[connectorID]; p.uses > 1 {
		p.uses--
	} else {
		delete(t.points, connectorID)
	}
}

// In is what to observe of a processor for the records that come to it, before its condition,
// and of a destination for those that come to its processors.
func In(id string) string { return id + "/in" }

// Out is what to observe of a processor for the records that go on behind it.
func Out(id string) string { return id + "/out" }

// Publish shows records that pass a processor to its observers. It copies them for that.
func (t *Taps) Publish(point string, records []record.Record) {
	if t == nil || t.observing.Load() == 0 {
		return
	}
	t.mu.Lock()
	p := t.points[point]
	t.mu.Unlock()
	p.publishCopy(record.NewBatch(records))
}

// publishCopy shows a copy of b to the observers, because b will be changed.
func (p *tap) publishCopy(b *record.Batch) {
	if p != nil && p.observers.Load() != nil {
		p.publish(b.Clone())
	}
}

// publish shows b to the observers.
func (p *tap) publish(b *record.Batch) {
	if p == nil {
		return
	}
	if all := p.observers.Load(); all != nil {
		for _, o := range *all {
			o.observe(b)
		}
	}
}
