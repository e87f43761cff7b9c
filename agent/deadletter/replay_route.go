package deadletter

import (
	"fmt"
	"slices"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// place is a place for processors in a pipeline, in the order in which records pass them.
type place int

const (
	atSource place = iota
	atPipeline
	atDestination
	inDestination // behind its processors
)

// route is how a dead letter passes the pipeline: from where, and to which destination.
type route struct {
	place     place
	connector string // a source; or the only destination, "" for all
	from      int    // index of the first processor at the place
}

// whole is the route of what passes all of the pipeline: what processors made of dead letters
// that entered before.
var whole = route{}

// routeOf returns the route of a dead letter through p. A processor that is gone is passed
// over: those behind it are where it was.
func routeOf(p *spec.Pipeline, l *Replay) (route, error) {
	e := l.Entry
	if e.Connector == "" {
		return route{place: atPipeline, from: position(p.Processors, e)}, nil
	}
	i := slices.IndexFunc(p.Connectors, func(c spec.Connector) bool { return c.ID == e.Connector })
	switch {
	case i >= 0 && p.Connectors[i].Type == spec.TypeSource:
		return route{place: atSource, connector: e.Connector, from: position(p.Connectors[i].Processors, e)}, nil
	case i < 0 && l.Stage == rest.StageSourceProcessor:
		return route{place: atPipeline}, nil
	case i < 0:
		return route{}, fmt.Errorf("cannot replay dead letter %d: pipeline %s has no destination %q any more", l.ID, p.ID, e.Connector)
	case e.Processor == "":
		return route{place: inDestination, connector: e.Connector}, nil
	}
	return route{place: atDestination, connector: e.Connector, from: position(p.Connectors[i].Processors, e)}, nil
}

// position returns the index at which to enter processors.
func position(all []spec.Processor, e Entry) int {
	if i := slices.IndexFunc(all, func(d spec.Processor) bool { return d.ID == e.Processor }); i >= 0 {
		return i
	}
	return min(e.Index, len(all))
}

// through returns from which processor on a record passes those at a place of a connector;
// ok is false when it does not get there at all. Passing none is from the last one on.
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
