package engine

import (
	"context"
	"fmt"
	"maps"

	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/pluginname"
	"github.com/conduit-agent/conduit/spec"
)

// notifyLifecycle sends a connector the event that it starts for the first time, or that
// its settings differ from those it last started with, and saves that it got it. When it
// takes the place of another plugin, the state of that one is kept as superseded, to be
// cleaned up.
func notifyLifecycle[C connector.Connector](ctx context.Context, p *Pipeline, o *opened[C]) error {
	if !o.lifecycle {
		return nil
	}
	state, err := p.Store.ConnectorState(ctx, o.id)
	if err != nil {
		return fmt.Errorf("cannot read the state of connector %s: %w", o.id, err)
	}
	var replaced *spec.ConnectorState
	if state != nil && pluginname.Bare(state.Plugin) != pluginname.Bare(o.plugin) {
		replaced = state
		// It may have been replaced itself, and not be cleaned up yet.
		if state, err = p.Store.ConnectorState(ctx, spec.SupersededID(o.id, o.plugin)); err != nil {
			return fmt.Errorf("cannot read the state of connector %s: %w", o.id, err)
		}
	}
	if replaced == nil && state != nil && state.Plugin == o.plugin && state.Orphaned.IsZero() && maps.Equal(state.Active, o.declared.Settings) {
		return nil
	}
	if err := sendLifecycle(ctx, p, o, state); err != nil {
		return fmt.Errorf("cannot start connector %s: its lifecycle event failed: %w", o.id, err)
	}
	if replaced != nil {
		if err := p.Store.SaveConnectorState(ctx, replaced.Superseded()); err != nil {
			return fmt.Errorf("cannot save the state of connector %s: %w", o.id, err)
		}
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

// sendLifecycle sends the event that follows from the state of the last start.
func sendLifecycle[C connector.Connector](ctx context.Context, p *Pipeline, o *opened[C], state *spec.ConnectorState) error {
	switch {
	case state == nil:
		return o.connector.LifecycleOnCreated(ctx, o.settings)
	case maps.Equal(state.Active, o.declared.Settings):
		return nil
	}
	before, lost := p.Recall(state.Active)
	if len(lost) > 0 {
		p.Log.Warn("cannot resolve references in the settings that the connector had before, its update event has them empty", "connector_id", o.id, "settings", lost)
	}
	return o.connector.LifecycleOnUpdated(ctx, before, o.settings)
}
