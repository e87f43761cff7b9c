package catalog

import (
	"context"
	"fmt"
	"log/slog"
	"sort"

	"github.com/conduit-agent/conduit/spec"
)

// changes returns the changes of connectors and of processors.
func (c *Catalog) changes() (all []Change) {
	for _, e := range c.Host.Changes() {
		all = append(all, Change{e.ConnectorID, e.Reason, e.Message, e.Now, e.Started})
	}
	return append(all, c.processorChanges()...)
}

// processorChanges returns one change for each processor that a restart would start from another plugin or module, or
// not at all.
func (c *Catalog) processorChanges() []Change {
	byID := map[string]Change{}
	for _, m := range c.Modules.Changes() {
		byID[m.ID] = m
	}
	for _, r := range c.Processors.Running() {
		modified, is := byID[r.ProcessorID]
		runs := fmt.Sprintf("processor %s runs %s", r.ProcessorID, r.Plugin)
		switch {
		case r.Err == nil && r.Now != r.Plugin:
			byID[r.ProcessorID] = Change{r.ProcessorID, "PluginReplaced", fmt.Sprintf("%s, but %s now refers to %s; a "+
				"restart of the pipeline uses that one", runs, r.Reference, r.Now), r.Now.String(), r.Started}
		case r.Err != nil && (!is || modified.Reason == "PluginReplaced"): // by another version than the reference names
			byID[r.ProcessorID] = Change{r.ProcessorID, "PluginGone", fmt.Sprintf("%s, and cannot be restarted: %v",
				runs, r.Err), "", r.Started}
		}
	}
	all := make([]Change, 0, len(byID))
	for _, change := range byID {
		all = append(all, change)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].ID < all[j].ID })
	return all
}

// Changes returns the connectors and processors that a restart would start from another plugin or file, or not at all.
// pipelineOf returns the pipeline of a connector or processor, if any.
func (c *Catalog) Changes(pipelineOf func(id string) (pipelineID string, ok bool)) []spec.PluginChange {
	var all []spec.PluginChange
	for _, change := range c.changes() {
		if id, ok := pipelineOf(change.ID); ok {
			all = append(all, spec.PluginChange{Pipeline: id, Reason: change.Reason, Message: change.Message,
				Now: change.Now})
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
		now, events, changed := map[Change]bool{}, []spec.Event{}, map[string][]spec.PluginChange{}
		for _, c := range r.Catalog.changes() {
			now[c] = true
			if id, ok := r.Pipeline(c.ID); ok && !recorded[c] {
				events = append(events, spec.Event{Pipeline: id, Type: spec.EventWarning, Reason: c.Reason,
					Message: c.Message})
				changed[id] = append(changed[id], spec.PluginChange{Message: c.Message, Now: c.Now})
			}
		}
		for id, changes := range changed {
			r.Log.Info("plugins of the running pipeline changed", "component", "plugins", "pipeline_id", id, "reason",
				spec.RestartText(id, changes))
		}
		recorded = now
		if err := r.Apply(ctx, &spec.Changes{Events: events}); err != nil && ctx.Err() == nil {
			r.Log.Error("cannot record that plugins changed", "component", "agent", "err", err)
		}
		r.Recorded()
	}
}
