package engine

import (
	"context"
	"fmt"
	"maps"

	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/spec"
)

// notifyLifecycle sends a connector the event that it starts for the first time, or that
// its settings differ from those it last started with, and saves that it got it.
func notifyLifecycle[C connector.Connector](ctx context.Context, p *Pipeline, o *opened[C]) error {
	if !o.lifecycle {
		return nil
	}
	state, err := p.Store.ConnectorState(ctx, o.id)
	if err != nil {
		return fmt.Errorf("cannot read the state of connector %s: %w", o.id, err)
	}
	switch {
	case state == nil:
		err = o.connector.LifecycleOnCreated(ctx, o.settings)
	case !maps.Equal(state.Active, o.declared.Settings):
		before, lost := p.Recall(state.Active)
		if len(lost) > 0 {
			p.Log.Warn("cannot resolve references in the settings that the connector had before, it is told that they were empty", "connector_id", o.id, "settings", lost)
		}
		err = o.connector.LifecycleOnUpdated(ctx, before, o.settings)
	case state.Plugin == o.plugin && state.Orphaned.IsZero():
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot start connector %s: its lifecycle event failed: %w", o.id, err)
	}
	err = p.Store.SaveConnectorState(ctx, &spec.ConnectorState{
		ID:         o.id,
		PipelineID: p.Declared.ID,
		Type:       o.declared.Type,
		Plugin:     o.plugin, // the one to clean up, whatever a reference to it says by then
		Active:     o.declared.Settings,
	})
	if err != nil {
		return fmt.Errorf("cannot save the state of connector %s: %w", o.id, err)
	}
	return nil
}
