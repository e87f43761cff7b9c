package spec

import (
	"maps"
	"slices"
	"sort"

	"github.com/conduit-agent/conduit/plugins/pluginname"
	"github.com/conduit-agent/conduit/schemas"
)

// Change is a difference between two versions of a pipeline. It never contains the values of settings.
type Change struct {
	Path   string `json:"path"` // JSON pointer with ids in place of indices: /connectors/orders-db/settings/rate
	Action Action `json:"action"`
	Effect Effect `json:"effect"`
}

// Action is the kind of change at a path.
type Action string

// The actions.
const (
	ActionAdd    Action = "add"
	ActionRemove Action = "remove"
	ActionChange Action = "change"
)

// Effect is the effect of a change on a running pipeline, mildest first.
type Effect string

// The effects.
const (
	EffectNone Effect = "none" // the run is not affected
	// takes effect between two batches, sources and destinations stay open
	EffectInPlace Effect = "in-place"
	// the destination is flushed and reopened, sources stay open
	EffectRestartDestination Effect = "restart-destination"
	EffectRestart            Effect = "restart"       // drains and starts again from its saved position
	EffectPositionLost       Effect = "position-lost" // restarts, and a source's saved position is no longer used
)

// Severity orders effects: the more severe of two effects has the greater value.
func (e Effect) Severity() int {
	return slices.Index([]Effect{EffectNone, EffectInPlace, EffectRestartDestination, EffectRestart,
		EffectPositionLost}, e)
}

// EffectOf returns the effect of changing the pipeline from a to b: the severest effect of all their differences.
func EffectOf(a, b *Pipeline) Effect {
	severest := EffectNone
	for _, c := range Diff(a, b) {
		if c.Effect.Severity() > severest.Severity() {
			severest = c.Effect
		}
	}
	return severest
}

// Diff returns the differences between a and b, ordered by path. Either may be nil for a pipeline that does not exist.
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
	sort.SliceStable(d.changes, func(i, j int) bool { return d.changes[i].Path < d.changes[j].Path })
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
	changed(d, "/max-silence", a.MaxSilence, b.MaxSilence, EffectNone)
	if !maps.Equal(a.Labels, b.Labels) {
		d.add("/labels", ActionChange, EffectNone)
	}
	byNumber := slices.ContainsFunc(b.Connectors, func(c Connector) bool {
		return dividedByNumber(c.Plugin, c.Settings)
	})
	for _, path := range a.Terms.Changes(b.Terms) {
		effect := EffectNone
		if path == "/instances" && byNumber { // each instance reads another part
			effect = EffectRestart
		}
		d.add(path, ActionChange, effect)
	}
	each(a.Connectors, b.Connectors, func(c *Connector) string { return c.ID }, func(id string, a, b *Connector) {
		d.connector("/connectors/"+schemas.EscapePointer(id), a, b)
	})
	d.queue(&a.DeadLetterQueue, &b.DeadLetterQueue)
	d.allProcessors(a, b)
}

// queue compares dead-letter queues. A destination learns at Open whether refusals are tolerated.
func (d *differ) queue(a, b *DeadLetterQueue) {
	const at = "/dead-letter-queue"
	changed(d, at+"/plugin", a.Plugin, b.Plugin, EffectInPlace)
	window := EffectInPlace
	if a.Tolerant() != b.Tolerant() {
		window = EffectRestartDestination
	}
	changed(d, at+"/window-size", a.WindowSize, b.WindowSize, window)
	changed(d, at+"/window-nack-threshold", a.WindowNackThreshold, b.WindowNackThreshold, window)
	changed(d, at+"/keep-original", a.KeepOriginal, b.KeepOriginal, EffectInPlace)
	d.settings(at, a.Settings, b.Settings, EffectInPlace)
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
	effect, plugin := EffectRestart, EffectRestart
	switch {
	case a.Type == TypeDestination:
		effect, plugin = EffectRestartDestination, EffectRestartDestination
	case pluginname.Bare(a.Plugin) != pluginname.Bare(b.Plugin):
		plugin = EffectPositionLost // which only its plugin can read
	}
	changed(d, at+"/type", a.Type, b.Type, EffectPositionLost)
	changed(d, at+"/plugin", a.Plugin, b.Plugin, plugin)
	changed(d, at+"/name", a.Name, b.Name, EffectNone)
	if !a.Isolate.Equal(b.Isolate) {
		d.add(at+"/isolate", ActionChange, effect)
	}
	d.settings(at, a.Settings, b.Settings, effect)
}

// allProcessors compares all chains. They are replaced as a whole between two batches, but not together with a
// destination: the output of the old chains may be waiting for the destination already, and may not suit the new one.
func (d *differ) allProcessors(a, b *Pipeline) {
	effect := EffectInPlace
	if slices.ContainsFunc(d.changes, func(c Change) bool { return c.Effect == EffectRestartDestination }) {
		effect = EffectRestart
	}
	d.processors("", a.Processors, b.Processors, effect)
	d.routes(a, b, effect)
	each(a.Connectors, b.Connectors, func(c *Connector) string { return c.ID }, func(id string, a, b *Connector) {
		if a != nil && b != nil {
			d.processors("/connectors/"+schemas.EscapePointer(id), a.Processors, b.Processors, effect)
		}
	})
}

// routes compares the settings that choose the destinations of records. The order of destinations counts only where the
// first one is chosen.
func (d *differ) routes(a, b *Pipeline, effect Effect) {
	changed(d, "/routing", a.Routing, b.Routing, effect)
	each(a.Connectors, b.Connectors, func(c *Connector) string { return c.ID }, func(id string, a, b *Connector) {
		if a != nil && b != nil {
			at := "/connectors/" + schemas.EscapePointer(id)
			changed(d, at+"/condition", a.Condition, b.Condition, effect)
			changed(d, at+"/default", a.Default, b.Default, effect)
		}
	})
	x, y := a.routeOrder(), b.routeOrder()
	if !slices.Equal(x, y) && slices.Equal(slices.Sorted(slices.Values(x)), slices.Sorted(slices.Values(y))) {
		d.add("/connectors", ActionChange, effect)
	}
}

func (d *differ) processors(at string, a, b []Processor, effect Effect) {
	at += "/processors"
	id := func(p *Processor) string { return p.ID }
	if same := ids(a, id); !slices.Equal(same, ids(b, id)) &&
		slices.Equal(slices.Sorted(slices.Values(same)), slices.Sorted(slices.Values(ids(b, id)))) {
		d.add(at, ActionChange, effect)
	}
	each(a, b, id, func(id string, a, b *Processor) {
		at := at + "/" + schemas.EscapePointer(id)
		switch {
		case a == nil:
			d.add(at, ActionAdd, effect)
		case b == nil:
			d.add(at, ActionRemove, effect)
		default:
			changed(d, at+"/workers", max(a.Workers, 1), max(b.Workers, 1), effect)
			changed(d, at+"/plugin", a.Plugin, b.Plugin, effect)
			changed(d, at+"/condition", a.Condition, b.Condition, effect)
			d.settings(at, a.Settings, b.Settings, effect)
		}
	})
}

func (d *differ) settings(at string, a, b map[string]string, effect Effect) {
	for name := range a {
		if _, ok := b[name]; !ok {
			d.add(at+"/settings/"+schemas.EscapePointer(name), ActionRemove, effect)
		}
	}
	for name, value := range b {
		before, ok := a[name]
		if !ok {
			d.add(at+"/settings/"+schemas.EscapePointer(name), ActionAdd, effect)
		} else if before != value {
			d.add(at+"/settings/"+schemas.EscapePointer(name), ActionChange, effect)
		}
	}
}

// changed adds the change of a field if the values differ.
func changed[T comparable](d *differ, path string, a, b T, effect Effect) {
	if a != b {
		d.add(path, ActionChange, effect)
	}
}

// each calls do for every id of a and b with the elements that have it, or nil.
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
