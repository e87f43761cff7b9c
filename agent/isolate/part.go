package isolate

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/agent/runner"
	"github.com/conduit-agent/conduit/agent/telemetry"
	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/spec"
)

var _ runner.Isolation = (*Part)(nil)

// Part is the isolation of destinations in an agent.
type Part struct {
	Logs
	setup runner.IsolationSetup
}

// NewPart returns the isolation of an agent.
func NewPart(s runner.IsolationSetup) *Part { return &Part{LogsOf(s.Store), s} }

// Destination implements runner.Isolation.
func (t *Part) Destination(in runner.Isolated) (connector.Destination, error) {
	p := in.Pipeline
	i := slices.IndexFunc(p.Connectors, func(c spec.Connector) bool {
		return c.Type == spec.TypeDestination && p.QualifiedID(c.ID) == in.ID
	})
	if i < 0 || p.Connectors[i].Isolate == nil && !t.Has(p.ID, p.Connectors[i].ID) {
		return nil, nil
	}
	log := in.Runner.Log
	o := Options{
		Pipeline: p.ID,
		ID:       in.ID,
		Logs:     t.Logs,
		Limits:   p.Connectors[i].Isolate,
		Start:    in.Start,
		Batching: func(settings map[string]string) engine.BatchPolicy {
			return engine.BatchPolicyOf(in.Plugins.WithDefaults(in.Plugin, settings))
		},
		Delay:          func(failures int) time.Duration { return t.setup.Delay(in.ID, failures) },
		AnswerTimeout:  in.Runner.AckTimeout,
		CommitInterval: in.Runner.Committer.CommitInterval,
		Barrier:        in.Runner.Committer.Barrier,
		Event:          func(typ, reason, message string) { t.event(log, p.ID, typ, reason, in.Redact(message)) },
		Redact:         in.Redact,
		Log:            log.With("component", "engine", "pipeline_id", p.ID),
	}
	for i := range p.Connectors {
		if p.Connectors[i].Type == spec.TypeSource {
			o.Sources = append(o.Sources, p.QualifiedID(p.Connectors[i].ID))
		}
	}
	if before := in.Runner.Committer.Before; before != nil {
		o.KeepDeadLetters = func(ctx context.Context) error {
			return before(ctx, []spec.Checkpoint{{PipelineID: p.ID}})
		}
	}
	if in.Memory != nil {
		o.Memory = in.Memory
	}
	return New(o), nil
}

// Discard implements runner.Isolation.
func (t *Part) Discard(c *spec.ConnectorState, log *slog.Logger) error {
	id, superseded := c.ConnectorID()
	if superseded || c.Type != spec.TypeDestination {
		return nil
	}
	destination := connectorOf(c.PipelineID, id)
	if !t.Has(c.PipelineID, destination) {
		return nil
	}
	waiting, err := t.Waiting(c.PipelineID, destination)
	left := fmt.Sprintf("%d records in its log that it had not received are", waiting)
	if err != nil {
		left = fmt.Sprintf("its log, which cannot be read (%v), is", err)
	}
	if err := t.Remove(c.PipelineID, destination); err != nil {
		return fmt.Errorf("cannot remove the log of the destination %s: %w", id, err)
	}
	if waiting > 0 || err != nil {
		t.event(log, c.PipelineID, spec.EventWarning, "IsolatedDiscarded", fmt.Sprintf("destination %s was removed, and "+
			"%s discarded", id, left))
	}
	return nil
}

// event saves an event of a pipeline.
func (t *Part) event(log *slog.Logger, pipeline, typ, reason, message string) {
	err := t.setup.Apply(context.Background(), &spec.Changes{Events: []spec.Event{{Pipeline: pipeline, Type: typ,
		Reason: reason, Message: message}}})
	if err != nil {
		log.Warn("cannot save an event", "component", "agent", "pipeline_id", pipeline, "reason", reason, "err", err)
	}
}

// Plan implements runner.Isolation.
func (t *Part) Plan(to *spec.PlannedPipeline, before, after *spec.Pipeline, cleanup string) {
	for id, notes := range t.Notes(before, after, cleanup) {
		if to.Notes == nil {
			to.Notes = map[string][]string{}
		}
		to.Notes[id] = append(to.Notes[id], notes...)
	}
}

// Backlogs implements runner.Isolation.
func (t *Part) Backlogs(p *engine.Pipeline) map[string]spec.Backlog {
	all := map[string]spec.Backlog{}
	engine.EachIsolated(p, func(id string, o engine.Isolated) {
		if d, ok := o.(*Destination); ok {
			if b, ok := d.Backlog(); ok {
				all[id] = b
			}
		}
	})
	return all
}

// Measure implements runner.Isolation.
func (t *Part) Measure(b *spec.Backlog, emit func(name, help string, counter bool, value float64)) {
	emit(telemetry.IsolatedRecords, "Records in the log of an isolated destination that it has not received.", false,
		float64(b.Records))
	emit(telemetry.IsolatedBytes, "Bytes of these records on disk.", false, float64(b.Bytes))
	if b.Limit > 0 {
		emit(telemetry.IsolatedLimit, "Limit of the log of an isolated destination in bytes.", false,
			float64(b.Limit))
	}
	emit(telemetry.IsolatedSeconds, "Age of the oldest record that an isolated destination has not received; 0 "+
		"when there is none.", false, b.Seconds)
	emit(telemetry.IsolatedDropped, "Records that were dropped because the log of an isolated destination "+
		"was full.", true, float64(b.Dropped))
	failing := 0.0
	if b.Error != "" {
		failing = 1
	}
	emit(telemetry.IsolatedFailing, "1 while an isolated destination fails and is tried again, otherwise 0.", false,
		failing)
}

// Wait implements runner.Isolation.
func (t *Part) Wait(lags map[string]measure.Lag, p *engine.Pipeline) {
	for _, b := range t.Backlogs(p) {
		if b.Records == 0 {
			continue
		}
		for id, l := range lags {
			l.OldestUnacked = max(l.OldestUnacked, time.Duration(b.Seconds*float64(time.Second)), 1)
			lags[id] = l
		}
	}
}

// limitsOf describes the limits of a log for people.
func limitsOf(i *spec.Isolation) string {
	age := ""
	if i.Age != "" {
		age = " or a record waits longer than " + i.Age
	}
	then := map[spec.IsolationFull]string{
		spec.IsolationBlocks:      "the pipeline waits",
		spec.IsolationDropsOldest: "the oldest records are dropped",
		spec.IsolationRefuses:     "new records go to the dead-letter queue",
	}[i.Policy()]
	return fmt.Sprintf("its records wait in a log on this host; beyond %d bytes%s %s", i.Bytes, age, then)
}
