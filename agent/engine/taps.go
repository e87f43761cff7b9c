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
	mu     sync.Mutex
	points map[string]*tap // guarded by mu
}

// tap is where the records of one connector pass. A nil tap has no observers.
type tap struct {
	observers atomic.Pointer[[]*observer] // replaced, never modified
}

type observer struct{ observe func(b *record.Batch) }

// Observe calls f with every batch that passes the connector, a source's after reading
// and a destination's before writing, until stop is called. f must return at once and
// must not change the records; it may keep them. It may be called concurrently.
func (t *Taps) Observe(connectorID string, f func(b *record.Batch)) (stop func()) {
	p, o := t.point(connectorID), &observer{f}
	t.change(p, func(all []*observer) []*observer { return append(all, o) })
	return func() {
		t.change(p, func(all []*observer) []*observer {
			return slices.DeleteFunc(all, func(other *observer) bool { return other == o })
		})
	}
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

func (t *Taps) point(connectorID string) *tap {
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
	return p
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
