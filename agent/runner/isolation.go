package runner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/agent/engine/backpressure"
	"github.com/conduit-agent/conduit/agent/isolate"
	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/spec"
)

// Isolation is what isolated destinations need. The zero Isolation has none.
type Isolation struct {
	// New returns a destination with a log; nil: the binary contains no isolation.
	New  func(isolate.Options) connector.Destination
	Logs isolate.Logs
	// Delay returns the time before the next attempt after this number of failures in a row of a destination.
	Delay func(id string, failures int) time.Duration
	// Event records an event of a pipeline.
	Event func(pipelineID, typ, reason, message string)
}

// errNoIsolation is the error of a binary that contains no isolation.
var errNoIsolation = errors.New("this binary is conduit-edge, which does not isolate destinations; remove isolate, " +
	"or use the full binary, conduit")

// isolated returns the destination with this qualified id and a log before it, if it is isolated or still has a log.
// Otherwise it returns nil. start returns new instances of the destination.
func (o *run) isolated(plugin, id string, start func(ctx context.Context) (connector.Destination, error),
) (connector.Destination, error) {
	p, r := o.version.Load(), o.runner
	c := connectorIn(p, id)
	if c == nil || c.Isolate == nil && !r.Isolation.Logs.Has(p.ID, c.ID) {
		return nil, nil
	}
	if r.Isolation.New == nil {
		return nil, engine.Permanent(fmt.Errorf("cannot isolate destination %s: %w", id, errNoIsolation))
	}
	options := isolate.Options{
		Pipeline: p.ID,
		ID:       id,
		Logs:     r.Isolation.Logs,
		Limits:   c.Isolate,
		Sources:  sourcesOf(p),
		Start:    start,
		Batching: func(settings map[string]string) engine.BatchPolicy {
			return engine.BatchPolicyOf(o.Plugins.WithDefaults(plugin, settings))
		},
		Delay:         func(failures int) time.Duration { return r.Isolation.Delay(id, failures) },
		AnswerTimeout: r.AckTimeout,
		Interval:      r.Committer.Interval,
		Barrier:       r.Committer.Barrier,
		Event: func(typ, reason, message string) {
			r.Isolation.Event(p.ID, typ, reason, o.secrets.Text(message))
		},
		Log: o.Log,
	}
	if before := r.Committer.Before; before != nil {
		options.KeepDeadLetters = func(ctx context.Context) error {
			return before(ctx, []spec.Checkpoint{{PipelineID: p.ID}})
		}
	}
	if shared := r.Window.Shared; shared != nil {
		options.Memory = shared.Part(backpressure.Spools).Holder()
	}
	return r.Isolation.New(options), nil
}

// connectorIn returns the destination of p with this qualified id, nil for another connector.
func connectorIn(p *spec.Pipeline, id string) *spec.Connector {
	for i := range p.Connectors {
		if c := &p.Connectors[i]; c.Type == spec.TypeDestination && p.QualifiedID(c.ID) == id {
			return c
		}
	}
	return nil
}

// sourcesOf returns the qualified ids of the sources of p.
func sourcesOf(p *spec.Pipeline) (ids []string) {
	for i := range p.Connectors {
		if p.Connectors[i].Type == spec.TypeSource {
			ids = append(ids, p.QualifiedID(p.Connectors[i].ID))
		}
	}
	return ids
}

// discardLog removes the log of a destination that was removed, and reports the records that it has not received.
func (r *Runner) discardLog(c *spec.ConnectorState) error {
	id, superseded := c.ConnectorID()
	if superseded || c.Type != spec.TypeDestination {
		return nil
	}
	of := strings.TrimPrefix(id, c.PipelineID+":")
	if !r.Isolation.Logs.Has(c.PipelineID, of) {
		return nil
	}
	waiting, err := r.Isolation.Logs.Waiting(c.PipelineID, of)
	if err != nil {
		r.Log.Warn("cannot read the log of a removed destination", "component", "agent", "pipeline_id", c.PipelineID,
			"connector_id", id, "err", err)
	}
	if err := r.Isolation.Logs.Remove(c.PipelineID, of); err != nil {
		return fmt.Errorf("cannot remove the log of the destination %s: %w", id, err)
	}
	if waiting > 0 {
		r.Log.Warn("discarded records of a removed isolated destination", "component", "agent", "pipeline_id",
			c.PipelineID, "connector_id", id, "records", waiting)
		r.Isolation.Event(c.PipelineID, spec.EventWarning, "IsolatedDiscarded", fmt.Sprintf("destination %s was removed, "+
			"and %d records in its log that it had not received are discarded", id, waiting))
	}
	return nil
}
