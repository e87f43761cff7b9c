package deadletter

import (
	"fmt"
	"slices"

	"github.com/conduit-agent/conduit/spec"
)

// place is a place for processors in a pipeline, in the order in which records pass them.
type place int

const (
	atSource place = iota
	atPipeline
	atDestination
	inDestination // after the processors of the destination
)

// route is the path of a dead letter through the pipeline: its start, and its destination.
type route struct {
	place     place
	connector string // a source; or the only destination, or "" for all
	from      int    // index of the first processor at the place
}

// whole is the route through the whole pipeline. Records that processors make of dead letters that entered before have
// it.
var whole = route{}

// routeOf returns the route of a dead letter through p. If the processor is gone, the route starts at the processors
// that took its place.
func routeOf(p *spec.Pipeline, l *Replay) (route, error) {
	e := l.Entry
	if e.Connector == "" {
		return route{place: atPipeline, from: position(p.Chain(nil), e)}, nil
	}
	i := slices.IndexFunc(p.Connectors, func(c spec.Connector) bool { return c.ID == e.Connector })
	switch {
	case i >= 0 && p.Connectors[i].Type == spec.TypeSource:
		return route{place: atSource, connector: e.Connector, from: position(p.Connectors[i].Processors, e)}, nil
	case i < 0 && l.Stage == spec.RefusedBySourceProcessor:
		return route{place: atPipeline}, nil
	case i < 0:
		return route{}, fmt.Errorf("cannot replay dead letter %d: pipeline %s no longer has a destination %q", l.ID,
			p.ID, e.Connector)
	case e.Processor == "":
		return route{place: inDestination, connector: e.Connector}, nil
	}
	return route{place: atDestination, connector: e.Connector, from: position(p.Connectors[i].Processors, e)}, nil
}

// position returns the index at which an entry enters the processors.
func position(all []spec.Processor, e Entry) int {
	if i := slices.IndexFunc(all, func(d spec.Processor) bool { return d.ID == e.Processor }); i >= 0 {
		return i
	}
	return min(e.Index, len(all))
}

// through returns the index from which a record passes the processors at a place of a connector; n if it passes none.
// ok is false if the record does not get there at all.
func (r route) through(at place, connector string, n int) (from int, ok bool) {
	switch {
	case r.place > atPipeline && at == atDestination && connector != r.connector:
		return n, false
	case at < r.place:
		return n, true
	case at == r.place:
		return r.from, true
	}
	return 0, true
}
