package deadletter

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

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
	// only is, for a route from the first processor, the destination that refused the record. The others have the
	// record already, unless it does not go to this destination any more. "": all destinations get it.
	only string
}

// whole is the route through the whole pipeline. Records that processors make of dead letters that entered before have
// it.
var whole = route{}

// enter returns the route of a dead letter through p. With ReplayFromFirst, the dead letter then has the record as it
// was read.
func enter(p *spec.Pipeline, l *Replay, from spec.ReplayFrom) (route, error) {
	switch from {
	case spec.ReplayFromFirst:
		return fromFirst(p, l)
	case spec.ReplayFromRefused:
		if err := checkStage(p, l); err != nil {
			return route{}, err
		}
	}
	return routeOf(p, l)
}

// fromFirst returns the route of a dead letter from the first processor behind its source.
func fromFirst(p *spec.Pipeline, l *Replay) (route, error) {
	cannot := func(why string) (route, error) {
		return route{}, fmt.Errorf("cannot replay dead letter %d from the first processor: %s", l.ID, why)
	}
	original, err := l.Original()
	id := strings.TrimPrefix(l.SourceID, p.ID+":")
	switch i := indexOfConnector(p, id); {
	case err != nil:
		return cannot(err.Error())
	case l.Edits > 0:
		return cannot("it was edited, and the edited record is the one that was refused; replay it from the stage " +
			"that refused it (--from refused)")
	case original == nil:
		return cannot("the record as it was read was not kept; replay it from the stage that refused it (--from " +
			"refused), and set keep-original: true in dead-letter-queue for dead letters to come")
	case i < 0 || p.Connectors[i].Type != spec.TypeSource:
		return cannot(fmt.Sprintf("pipeline %s no longer has a source %q; give a source this id, or replay it from "+
			"the stage that refused it (--from refused)", p.ID, id))
	}
	l.Record = *original
	to := route{place: atSource, connector: id}
	if i := indexOfConnector(p, l.Entry.Connector); i >= 0 && p.Connectors[i].Type == spec.TypeDestination {
		to.only = l.Entry.Connector
	}
	return to, nil
}

// checkStage returns an error unless p has the stage that a dead letter enters.
func checkStage(p *spec.Pipeline, l *Replay) error {
	all, stage := p.Chain(nil), "processor "+strconv.Quote(l.Entry.Processor)
	if id := l.Entry.Connector; id != "" {
		i := indexOfConnector(p, id)
		if i < 0 {
			return fmt.Errorf("cannot replay dead letter %d: pipeline %s no longer has a connector %q; give one this "+
				"id, or replay from the first processor (--from first)", l.ID, p.ID, id)
		}
		all, stage = p.Connectors[i].Processors, fmt.Sprintf("%s of connector %q", stage, id)
	}
	if l.Entry.Processor == "" ||
		slices.ContainsFunc(all, func(d spec.Processor) bool { return d.ID == l.Entry.Processor }) {
		return nil
	}
	return fmt.Errorf("cannot replay dead letter %d: pipeline %s no longer has the %s, which refused it; give a "+
		"processor this id, replay from the first processor (--from first), or leave out --from to enter at the "+
		"same place among the present processors", l.ID, p.ID, stage)
}

func indexOfConnector(p *spec.Pipeline, id string) int {
	return slices.IndexFunc(p.Connectors, func(c spec.Connector) bool { return c.ID == id })
}

// routeOf returns the route of a dead letter through p. If the processor is gone, the route starts at the processors
// that took its place.
func routeOf(p *spec.Pipeline, l *Replay) (route, error) {
	e := l.Entry
	if e.Connector == "" {
		return route{place: atPipeline, from: position(p.Chain(nil), e)}, nil
	}
	i := indexOfConnector(p, e.Connector)
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
