package agent

import (
	"context"
	"strings"

	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/spec"
)

// tellPluginChanges records an event for each connector that goes on with an executable
// which is another one on disk by now, or none.
func (a *Agent) tellPluginChanges(ctx context.Context) error {
	told := map[plugins.Change]bool{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.plugged:
		}
		now, events := map[plugins.Change]bool{}, []spec.Event{}
		for _, c := range a.Executables.Changes() {
			now[c] = true
			if id, ok := pipelineOf(c.ConnectorID); ok && !told[c] {
				events = append(events, spec.Event{Pipeline: id, Type: "warning", Reason: c.Reason, Message: c.Message})
			}
		}
		told = now
		if err := a.Store.Apply(ctx, &spec.Changes{Events: events}); err != nil && ctx.Err() == nil {
			a.options.Log.Error("cannot record that plugins changed", "component", "agent", "err", err)
		}
		a.changes.notify()
	}
}

// pipelineOf returns the pipeline of a connector, false if it is made for a check only.
func pipelineOf(connectorID string) (id string, ok bool) {
	i := strings.LastIndexByte(connectorID, ':')
	if i < 0 {
		return "", false
	}
	return connectorID[:i], true
}
