package spec

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Routing is how a pipeline chooses the destinations of a record among those with a condition.
type Routing string

// The ways to choose.
const (
	RouteToAll   Routing = "all"   // every destination whose condition holds
	RouteToFirst Routing = "first" // the first one, in the order of the declaration
)

// Enum returns the ways to choose.
func (Routing) Enum() []string { return []string{string(RouteToAll), string(RouteToFirst)} }

// MaxRoutes is the maximum number of destinations of a pipeline that routes records.
const MaxRoutes = 64

// RoutingID is the id of the processor that routes records, and RoutingPlugin its plugin. No declared processor can
// have them.
const (
	RoutingID     = "@routing"
	RoutingPlugin = "@routing"
	RoutesSetting = "routes" // the Routes as JSON
)

// Routes are the conditions by which the destinations of a record are chosen.
type Routes struct {
	Routing      Routing `json:"routing"`
	Destinations []Route `json:"destinations"` // in the order of the declaration
}

// Route is one destination.
type Route struct {
	ID        string `json:"id"`
	Bit       int    `json:"bit"`                 // number of the destination, from 0, in the set of a record
	Condition string `json:"condition,omitempty"` // Go template that yields a bool; empty: always, unless Default
	Default   bool   `json:"default,omitempty"`   // gets the records for which no condition holds
}

// Routed reports whether p chooses among its destinations.
func (p *Pipeline) Routed() bool {
	return slices.ContainsFunc(p.Connectors, func(c Connector) bool {
		return c.Type == TypeDestination && (c.Condition != "" || c.Default)
	})
}

// Routes returns the routes of p. The bits of destinations are their numbers in order, a list of their ids; if it is
// nil, they are in the order of the declaration.
func (p *Pipeline) Routes(order []string) Routes {
	r := Routes{Routing: p.Routing}
	if r.Routing == "" {
		r.Routing = RouteToAll
	}
	for _, c := range p.Connectors {
		if c.Type != TypeDestination {
			continue
		}
		bit := len(r.Destinations)
		if order != nil {
			bit = slices.Index(order, c.ID)
		}
		r.Destinations = append(r.Destinations, Route{ID: c.ID, Bit: bit, Condition: c.Condition, Default: c.Default})
	}
	return r
}

// Chain returns the processors of all sources of p. If p routes records, the last one chooses their destinations; order
// is that of Routes.
func (p *Pipeline) Chain(order []string) []Processor {
	if !p.Routed() {
		return p.Processors
	}
	text, err := json.Marshal(p.Routes(order))
	if err != nil {
		panic(err) // strings and numbers can always be encoded
	}
	return append(p.Processors[:len(p.Processors):len(p.Processors)], Processor{ID: RoutingID, Plugin: RoutingPlugin,
		Settings: map[string]string{RoutesSetting: string(text)}, Workers: defaultWorkers})
}

// routeOrder returns the ids of the destinations in their order, nil if the order has no effect.
func (p *Pipeline) routeOrder() (ids []string) {
	if p.Routing != RouteToFirst || !p.Routed() {
		return nil
	}
	for _, c := range p.Connectors {
		if c.Type == TypeDestination {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// checkRoutes reports routes that contradict each other or never get a record.
func checkRoutes(r *report, at string, p *Pipeline) {
	destinations, unconditional := 0, ""
	for i := range p.Connectors {
		c, at := &p.Connectors[i], fmt.Sprintf("%s/connectors/%d", at, i)
		if c.Type == TypeSource {
			if c.Condition != "" {
				r.add(at+"/condition", SeverityError, CodeInvalid, "source %q cannot have a condition: give it a "+
					"processor such as filter", c.ID)
			}
			if c.Default {
				r.add(at+"/default", SeverityError, CodeInvalid, "source %q cannot be a default: only destinations "+
					"take records", c.ID)
			}
			continue
		}
		destinations++
		if err := parseCondition(c.Condition); err != nil {
			r.add(at+"/condition", SeverityError, CodeInvalid, "condition of destination %q is not a Go template: %v",
				c.ID, err)
		}
		if c.Condition != "" && c.Default {
			r.add(at+"/default", SeverityError, CodeInvalid, "destination %q has a condition and is a default, which "+
				"gets the records that meet no condition: remove one of them", c.ID)
		}
		if p.Routing != RouteToFirst || !p.Routed() {
			continue
		}
		if unconditional != "" {
			r.add(at, SeverityError, CodeInvalid, "destination %q never gets a record: routing is first, and "+
				"destination %q before it has no condition, so it takes every record; give that one a condition, or "+
				"default: true", c.ID, unconditional)
		}
		if c.Condition == "" && !c.Default {
			unconditional = c.ID
		}
	}
	if p.Routing != "" && !p.Routed() {
		r.add(at+"/routing", SeverityWarning, CodeInvalid,
			"routing has no effect: no destination of pipeline %q has a "+
				"condition or default: true", p.ID)
	}
	if destinations > MaxRoutes && p.Routed() {
		r.add(at+"/connectors", SeverityError, CodeInvalid,
			"pipeline %q chooses among %d destinations: the maximum is "+
				"%d", p.ID, destinations, MaxRoutes)
	}
}
