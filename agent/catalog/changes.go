package catalog

import (
	"context"
	"log/slog"

	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/spec"
)

// Changes returns the connectors that go on with an executable which is another one on disk
// by now, or none. pipelineOf returns the pipeline that a connector belongs to, if any.
func (c *Catalog) Changes(pipelineOf func(connectorID string) (id string, ok bool)) []spec.PluginChange {
	var all []spec.PluginChange
	for _, change := range c.Executables.Changes() {
		if id, ok := pipelineOf(change.ConnectorID); ok {
			all = append(all, spec.PluginChange{Pipeline: id, Reason: change.Reason, Message: change.Message})
		}
	}
	return all
}

// Recorder records an event for each of the Changes.
type Recorder struct {
	Executables *plugins.Executables
	Apply       func(ctx context.Context, c *spec.Changes) error // of the store
	Pipeline    func(connectorID string) (id string, ok bool)    // the one that a connector belongs to, if any
	Changed     <-chan struct{}                                  // plugins came, went or changed
	Recorded    func()                                           // called after events were recorded
	Log         *slog.Logger
}

// Run records until ctx ends, then it returns nil.
func (r *Recorder) Run(ctx context.Context) error {
	recorded := map[plugins.Change]bool{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.Changed:
		}
		now, events := map[plugins.Change]bool{}, []spec.Event{}
		for _, c := range r.Executables.Changes() {
			now[c] = true
			if id, ok := r.Pipeline(c.ConnectorID); ok && !recorded[c] {
				events = append(events, spec.Event{Pipeline: id, Type: "warning", Reason: c.Reason, Message: c.Message})
			}
		}
		recorded = now
		if err := r.Apply(ctx, &spec.Changes{Events: events}); err != nil && ctx.Err() == nil {
			r.Log.Error("cannot record that plugins changed", "component", "agent", "err", err)
		}
		r.Recorded()
	}
}
