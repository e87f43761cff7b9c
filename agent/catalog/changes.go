package catalog

import (
	"context"
	"log/slog"

	"github.com/conduit-agent/conduit/spec"
)

// changes returns the changes of executables and of modules.
func (c *Catalog) changes() (all []Change) {
	for _, e := range c.Executables.Changes() {
		all = append(all, Change{e.ConnectorID, e.Reason, e.Message, e.Started})
	}
	return append(all, c.Modules.Changes()...)
}

// Changes returns the connectors and processors that still run from an executable or a module that was since replaced
// or removed on disk. pipelineOf returns the pipeline of a connector or processor, if any.
func (c *Catalog) Changes(pipelineOf func(id string) (pipelineID string, ok bool)) []spec.PluginChange {
	var all []spec.PluginChange
	for _, change := range c.changes() {
		if id, ok := pipelineOf(change.ID); ok {
			all = append(all, spec.PluginChange{Pipeline: id, Reason: change.Reason, Message: change.Message})
		}
	}
	return all
}

// Recorder records an event for each of the Changes.
type Recorder struct {
	Catalog  *Catalog
	Apply    func(ctx context.Context, c *spec.Changes) error // of the store
	Pipeline func(id string) (pipelineID string, ok bool)     // the pipeline of a connector or processor, if any
	Changed  <-chan struct{}                                  // plugins were added, removed or changed
	Recorded func()                                           // called after events were recorded
	Log      *slog.Logger
}

// Run records until ctx ends, then it returns nil.
func (r *Recorder) Run(ctx context.Context) error {
	recorded := map[Change]bool{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.Changed:
		}
		now, events := map[Change]bool{}, []spec.Event{}
		for _, c := range r.Catalog.changes() {
			now[c] = true
			if id, ok := r.Pipeline(c.ID); ok && !recorded[c] {
				events = append(events, spec.Event{Pipeline: id, Type: spec.EventWarning, Reason: c.Reason,
					Message: c.Message})
			}
		}
		recorded = now
		if err := r.Apply(ctx, &spec.Changes{Events: events}); err != nil && ctx.Err() == nil {
			r.Log.Error("cannot record that plugins changed", "component", "agent", "err", err)
		}
		r.Recorded()
	}
}
