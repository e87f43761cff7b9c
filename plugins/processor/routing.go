package processor

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/template"
	"github.com/conduit-agent/conduit/spec"
)

// routingPlugin is the processor that chooses the destinations of records. Users declare it by conditions of
// destinations, so it is in no registry.
var routingPlugin = sdk.ProcessorPlugin{Name: spec.RoutingPlugin, New: func() sdk.Processor { return &routing{} }}

// routing sets the destinations of each record, and filters a record that none takes.
type routing struct {
	sdk.ProcessorBase
	first    bool               // a record goes only to the first destination whose condition is true
	always   uint64             // set of the destinations that get every record
	defaults uint64             // set of the destinations of a record for which no condition is true
	routes   []conditionalRoute // in order
	parts    schema.Parts       // parts that the conditions read
}

// conditionalRoute is a destination with a condition, or without one where the order counts.
type conditionalRoute struct {
	id        string
	set       uint64
	condition *template.Condition // nil: always true
}

// Parameters implements sdk.Processor.
func (p *routing) Parameters() sdk.Parameters {
	return sdk.Parameters{spec.RoutesSetting: {Description: "The routes, in JSON."}}
}

// Configure implements sdk.Processor.
func (p *routing) Configure(_ context.Context, settings map[string]string) error {
	var routes spec.Routes
	if err := json.Unmarshal([]byte(settings[spec.RoutesSetting]), &routes); err != nil {
		return fmt.Errorf("cannot read the routes: %w", err)
	}
	p.first = routes.Routing == spec.RouteToFirst
	for _, r := range routes.Destinations {
		set := uint64(1) << r.Bit
		c, err := template.ParseCondition(r.Condition)
		switch {
		case err != nil:
			return fmt.Errorf("condition of destination %q: %w", r.ID, err)
		case r.Default:
			p.defaults |= set
			continue
		case c == nil && !p.first:
			p.always |= set
			continue
		case c != nil:
			parts := c.Parts()
			p.parts.Key, p.parts.Payload = p.parts.Key || parts.Key, p.parts.Payload || parts.Payload
		}
		p.routes = append(p.routes, conditionalRoute{r.ID, set, c})
	}
	return nil
}

// SchemaParts implements sdk.SchemaUser.
func (p *routing) SchemaParts() schema.Parts { return p.parts }

// Process implements sdk.Processor.
func (p *routing) Process(ctx context.Context, b *sdk.ProcessBatch) error {
	var timeLimit template.TimeLimit
	timeLimit.BeginWithin(ctx, sdk.EnvFrom(ctx).TimeLimit)
	for i, r := range b.Records(ctx) {
		to, err := p.destinations(&timeLimit, r)
		switch {
		case err != nil:
			b.Refuse(i, err)
		case to == 0:
			b.Filter(i)
		default:
			r.SetDestinations(to)
		}
	}
	return ctx.Err()
}

// destinations returns the set of the destinations of r.
func (p *routing) destinations(limit *template.TimeLimit, r *record.Record) (set uint64, err error) {
	for _, to := range p.routes {
		matches := true
		if to.condition != nil {
			if matches, err = to.condition.Match(limit, r); err != nil {
				return 0, fmt.Errorf("condition of destination %q: %w", to.id, err)
			}
		}
		if matches {
			set |= to.set
			if p.first {
				break
			}
		}
	}
	if set == 0 {
		set = p.defaults
	}
	return set | p.always, nil
}
