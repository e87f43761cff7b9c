package spec

import (
	"cmp"
	"maps"
	"slices"

	"github.com/conduit-agent/conduit/schemas"
)

// Change is one difference between two versions of a pipeline. It never contains the
// values of settings.
type Change struct {
	Path   string `json:"path"` // JSON pointer with ids in place of indices: /connectors/orders-db/settings/rate
	Action Action `json:"action"`
	Effect Effect `json:"effect"`
}

// Action says what was done to what is at a path.
type Action string

// The actions.
const (
	ActionAdd    Action = "add"
	ActionRemove Action = "remove"
	ActionChange Action = "change"
)

// Effect says what a change means for a running pipeline, mildest first.
type Effect string

// The effects.
const (
	EffectNone         Effect = "none"          // nothing running is touched
	EffectInPlace      Effect = "in-place"      // takes effect at once, connectors stay open
	EffectRestart      Effect = "restart"       // drains and starts again from its saved position
	EffectPositionLost Effect = "position-lost" // restarts, and a source's saved position is no longer used
)

// Diff returns what distinguishes b from a, ordered by path. Either may be nil for a
// pipeline that does not exist.
func Diff(a, b *Pipeline) []Change {
	var d differ
	switch {
	case a == nil && b == nil:
	case a == nil:
		d.add("", ActionAdd, EffectRestart)
	case b == nil:
		d.add("", ActionRemove, EffectPositionLost)
	default:
		d.pipeline(a, b)
	}
	slices.SortStableFunc(d.changes, func(x, y Change) int { return cmp.Compare(x.Path, y.Path) })
	return d.changes
}

type differ struct{ changes []Change }

func (d *differ) add(path string, action Action, effect Effect) {
	d.changes = append(d.changes, Change{path, action, effect})
}

func (d *differ) pipeline(a, b *Pipeline) {
	changed(d, "/id", a.ID, b.ID, EffectPositionLost)
	changed(d, "/status", a.Status, b.Status, EffectInPlace)
	changed(d, "/name", a.Name, b.Name, EffectNone)
	changed(d, "/description", a.Description, b.Description, EffectNone)
	each(a.Connectors, b.Connectors, func(c *Connector) string { return c.ID }, func(id string, a, b *Connector) {
		d.connector("/connectors/"+schemas.Escape(id), a, b)
	})
	d.processors("", a.Processors, b.Processors)
	const queue = "/dead-letter-queue"
	changed(d, queue+"/plugin", a.DLQ.Plugin, b.DLQ.Plugin, EffectRestart)
	changed(d, queue+"/window-size", a.DLQ.WindowSize, b.DLQ.WindowSize, EffectRestart)
	changed(d, queue+"/window-nack-threshold", a.DLQ.WindowNackThreshold, b.DLQ.WindowNackThreshold, EffectRestart)
	d.settings(queue, a.DLQ.Settings, b.DLQ.Settings, EffectRestart)
}

func (d *differ) connector(at string, a, b *Connector) {
	switch {
	case a == nil:
		d.add(at, ActionAdd, EffectRestart)
		return
	case b == nil && a.Type == TypeSource:
		d.add(at, ActionRemove, EffectPositionLost)
		return
	case b == nil:
		d.add(at, ActionRemove, EffectRestart)
		return
	}
	changed(d, at+"/type", a.Type, b.Type, EffectPositionLost)
	changed(d, at+"/plugin", a.Plugin, b.Plugin, EffectRestart)
	changed(d, at+"/name", a.Name, b.Name, EffectNone)
	d.settings(at, a.Settings, b.Settings, EffectRestart)
	d.processors(at, a.Processors, b.Processors)
}

// processors compares two chains. What a processor does can be exchanged between
// records, unless several workers are at it; the chain itself cannot.
func (d *differ) processors(at string, a, b []Processor) {
	at += "/processors"
	id := func(p *Processor) string { return p.ID }
	if same := ids(a, id); !slices.Equal(same, ids(b, id)) && slices.Equal(slices.Sorted(slices.Values(same)), slices.Sorted(slices.Values(ids(b, id)))) {
		d.add(at, ActionChange, EffectRestart)
	}
	each(a, b, id, func(id string, a, b *Processor) {
		at := at + "/" + schemas.Escape(id)
		switch {
		case a == nil:
			d.add(at, ActionAdd, EffectRestart)
		case b == nil:
			d.add(at, ActionRemove, EffectRestart)
		default:
			d.processor(at, a, b)
		}
	})
}

func (d *differ) processor(at string, a, b *Processor) {
	effect := EffectInPlace
	if a.Workers > 1 || b.Workers > 1 {
		effect = EffectRestart
	}
	changed(d, at+"/workers", max(a.Workers, 1), max(b.Workers, 1), EffectRestart)
	changed(d, at+"/plugin", a.Plugin, b.Plugin, effect)
	changed(d, at+"/condition", a.Condition, b.Condition, effect)
	d.settings(at, a.Settings, b.Settings, effect)
}

func (d *differ) settings(at string, a, b map[string]string, effect Effect) {
	for name := range a {
		if _, ok := b[name]; !ok {
			d.add(at+"/settings/"+schemas.Escape(name), ActionRemove, effect)
		}
	}
	for name, value := range b {
		before, ok := a[name]
		if !ok {
			d.add(at+"/settings/"+schemas.Escape(name), ActionAdd, effect)
		} else if before != value {
			d.add(at+"/settings/"+schemas.Escape(name), ActionChange, effect)
		}
	}
}

// changed adds the change of one field, if it is one.
func changed[T comparable](d *differ, path string, a, b T, effect Effect) {
	if a != b {
		d.add(path, ActionChange, effect)
	}
}

// each calls do for every id of a and b with what has it there, or nil.
func each[T any](a, b []T, id func(*T) string, do func(id string, a, b *T)) {
	after := map[string]*T{}
	for i := range b {
		after[id(&b[i])] = &b[i]
	}
	for i := range a {
		key := id(&a[i])
		do(key, &a[i], after[key])
		delete(after, key)
	}
	for _, key := range slices.Sorted(maps.Keys(after)) {
		do(key, nil, after[key])
	}
}

func ids[T any](all []T, id func(*T) string) []string {
	var list []string
	for i := range all {
		list = append(list, id(&all[i]))
	}
	return list
}
