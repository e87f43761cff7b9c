package engine

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/conduit-agent/conduit/plugins/record"
)

// TapPoints lets observers see the records that pass connectors, in any run. A connector without observers costs one
// atomic load per batch. The zero TapPoints is ready to use.
type TapPoints struct {
	observing atomic.Int32 // number of observers

	mu     sync.Mutex
	points map[string]*Tap // guarded by mu: taps in use, by connector or point id
}

// Tap is the point at which the records of a connector pass. A nil Tap has no observers.
type Tap struct {
	uses      int                         // guarded by TapPoints.mu: number of runs and observers
	observers atomic.Pointer[[]*observer] // replaced, never modified
}

type observer struct{ observe func(b *record.Batch) }

// Observe calls f with every batch that passes the connector, after reading for a source and before writing for a
// destination, until stop is called. f must return at once and must not change the records; it may keep them. It may
// be called concurrently.
func (t *TapPoints) Observe(connectorID string, f func(b *record.Batch)) (stop func()) {
	p, o := t.Acquire(connectorID), &observer{f}
	t.change(p, func(all []*observer) []*observer { return append(all, o) })
	t.observing.Add(1)
	return sync.OnceFunc(func() {
		t.change(p, func(all []*observer) []*observer {
			return slices.DeleteFunc(all, func(other *observer) bool { return other == o })
		})
		t.observing.Add(-1)
		t.Release(connectorID)
	})
}

// change calls f for a copy of the observers of p, and replaces them by the result.
func (t *TapPoints) change(p *Tap, f func(all []*observer) []*observer) {
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

// Acquire returns the tap of a connector. The caller must call Release after use.
func (t *TapPoints) Acquire(connectorID string) *Tap {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.points[connectorID]
	if p == nil {
		p = &Tap{}
		if t.points == nil {
			t.points = map[string]*Tap{}
		}
		t.points[connectorID] = p
	}
	p.uses++
	return p
}

// Release ends a use of the tap of a connector. The last release removes the tap.
func (t *TapPoints) Release(connectorID string) {
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

// TapIn returns the point at which records arrive: at a processor, before its condition, or at a destination, before
// its processors.
func TapIn(id string) string { return id + "/in" }

// TapOut returns the point at which records leave a processor.
func TapOut(id string) string { return id + "/out" }

// Publish shows a copy of records that pass a processor to its observers.
func (t *TapPoints) Publish(point string, records []record.Record) {
	if t == nil || t.observing.Load() == 0 {
		return
	}
	t.mu.Lock()
	p := t.points[point]
	t.mu.Unlock()
	p.PublishCopy(record.NewBatch(records))
}

// PublishCopy shows a copy of b to the observers, because b will be changed.
func (p *Tap) PublishCopy(b *record.Batch) {
	if p != nil && p.observers.Load() != nil {
		p.Publish(b.Clone())
	}
}

// observed reports whether there are observers.
func (p *Tap) observed() bool { return p != nil && p.observers.Load() != nil }

// Publish shows b to the observers. Lines become records before, since observers may keep the batch.
func (p *Tap) Publish(b *record.Batch) {
	if p == nil {
		return
	}
	if all := p.observers.Load(); all != nil {
		if _, ok := b.Lines(); ok {
			_, _ = b.Records() // never fails for lines
		}
		for _, o := range *all {
			o.observe(b)
		}
	}
}
