package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/agent/engine/backpressure"
	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/spec"
)

// Isolation makes destinations that hold up no other destination.
type Isolation interface {
	// Destination returns the destination with a log before it, if it is isolated or still has a log, and otherwise nil.
	Destination(o Isolated) (connector.Destination, error)
	// Discard removes the log of a connector that was removed, if it has one, and reports the records in it.
	Discard(c *spec.ConnectorState, log *slog.Logger) error
	// RemoveAll removes all logs of a pipeline that is being deleted.
	RemoveAll(pipelineID string) error
	// Plan adds notes to a planned change: its consequences for isolated destinations and the records in their logs.
	// Either version of the pipeline may be nil if it does not exist. cleanup is the time after which a removed
	// connector is cleaned up.
	Plan(to *spec.PlannedPipeline, before, after *spec.Pipeline, cleanup string)
	// Backlogs returns the state of each isolated destination of a running pipeline, by qualified id.
	Backlogs(p *engine.Pipeline) map[string]spec.Backlog
	// Measure emits the metrics of a backlog. All have the same labels.
	Measure(b *spec.Backlog, emit func(name, help string, counter bool, value float64))
	// Wait changes the lags of the sources of a pipeline so that none rests while records wait for a destination.
	Wait(lags map[string]measure.Lag, p *engine.Pipeline)
}

// IsolationSetup has the inputs of an Isolation.
type IsolationSetup struct {
	Store string // path of the store, next to which the logs are
	// Delay returns the time before the next attempt after this number of failures in a row of a destination.
	Delay func(id string, failures int) time.Duration
	// Apply saves events.
	Apply func(ctx context.Context, c *spec.Changes) error
}

// Isolated has the inputs of an isolated destination of a run.
type Isolated struct {
	Runner   *Runner
	Plugins  engine.Plugins
	Pipeline *spec.Pipeline
	Plugin   string
	ID       string // qualified
	// Start returns a new instance of the destination, which is not configured.
	Start  func(ctx context.Context) (connector.Destination, error)
	Redact func(text string) string
	Memory *backpressure.Holder // for records on their way to the destination
}

// isolated returns the destination with this qualified id and a log before it, if it is isolated or still has a log.
// Otherwise it returns nil. start returns new instances of the destination.
func (o *run) isolated(plugin, id string, start func(ctx context.Context) (connector.Destination, error),
) (connector.Destination, error) {
	p, r := o.version.Load(), o.runner
	if r.Isolation == nil {
		for i := range p.Connectors {
			if c := &p.Connectors[i]; c.Isolate != nil && p.QualifiedID(c.ID) == id {
				return nil, engine.Permanent(fmt.Errorf("cannot isolate destination %s: %w", id, errNoIsolation))
			}
		}
		return nil, nil
	}
	in := Isolated{Runner: r, Plugins: o.Plugins, Pipeline: p, Plugin: plugin, ID: id, Start: start,
		Redact: o.secrets.Text}
	if r.Window.Shared != nil {
		in.Memory = r.Window.Shared.Part(backpressure.Spools).Holder()
	}
	return r.Isolation.Destination(in)
}

// errNoIsolation is the error of a binary that contains no isolation.
var errNoIsolation = errors.New("this binary does not isolate destinations; remove isolate, " +
	"or use the full binary, conduit")
