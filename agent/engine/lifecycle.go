package engine

import (
	"context"
	"fmt"
	"log/slog"
	"maps"

	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/pluginname"
	"github.com/conduit-agent/conduit/spec"
)

// lifecycleStore stores the state of connectors.
type lifecycleStore interface {
	// ConnectorState returns the state of a connector, nil if it was never started.
	ConnectorState(ctx context.Context, connectorID string) (*spec.ConnectorState, error)
	// SaveConnectorState replaces the state of a connector. The caller does not change the value of c afterwards.
	SaveConnectorState(ctx context.Context, c *spec.ConnectorState) error
}

// lifecycleStart sends a connector that is about to start its lifecycle events, each once: that it was created, and
// that its settings were updated.
type lifecycleStart struct {
	Connector  connector.Connector
	PipelineID string
	ID         string // qualified
	Plugin     string // resolved
	Declared   *spec.Connector
	Settings   map[string]string // resolved
	Store      lifecycleStore
	// Recall resolves the references in settings of an earlier version. It empties settings whose references cannot be
	// resolved any more, and returns their names.
	Recall func(settings map[string]string) (resolved map[string]string, lost []string)
	Log    *slog.Logger
}

// Notify sends a connector the event that it starts for the first time, or that its settings have changed since its
// last start, and saves that the connector received it. If the connector replaces one with another plugin, the state
// of the old one is kept as superseded, for a later cleanup.
func (s *lifecycleStart) Notify(ctx context.Context) error {
	state, err := s.state(ctx, s.ID)
	if err != nil {
		return err
	}
	var replaced *spec.ConnectorState
	if state != nil && pluginname.Bare(state.Plugin) != pluginname.Bare(s.Plugin) {
		replaced = state
		// The old connector may itself have been replaced before, without a cleanup since.
		if state, err = s.state(ctx, spec.SupersededID(s.ID, s.Plugin)); err != nil {
			return err
		}
	}
	if replaced == nil && state != nil && state.Plugin == s.Plugin && state.Orphaned.IsZero() &&
		maps.Equal(state.Active, s.Declared.Settings) {
		return nil
	}
	if err := s.send(ctx, state); err != nil {
		return fmt.Errorf("cannot start connector %s: %w", s.ID, err)
	}
	if replaced != nil {
		if err := s.save(ctx, replaced.Superseded()); err != nil {
			return err
		}
	}
	return s.save(ctx, &spec.ConnectorState{
		ID:         s.ID,
		PipelineID: s.PipelineID,
		Type:       s.Declared.Type,
		Plugin:     s.Plugin, // the plugin to clean up, even if a reference to it changes later
		Active:     s.Declared.Settings,
	})
}

func (s *lifecycleStart) state(ctx context.Context, id string) (*spec.ConnectorState, error) {
	state, err := s.Store.ConnectorState(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("cannot read the state of connector %s: %w", s.ID, err)
	}
	return state, nil
}

func (s *lifecycleStart) save(ctx context.Context, state *spec.ConnectorState) error {
	if err := s.Store.SaveConnectorState(ctx, state); err != nil {
		return fmt.Errorf("cannot save the state of connector %s: %w", s.ID, err)
	}
	return nil
}

// send sends the event that follows from the state of the last start.
func (s *lifecycleStart) send(ctx context.Context, state *spec.ConnectorState) error {
	switch {
	case state == nil:
		return s.Connector.LifecycleOnCreated(ctx, s.Settings)
	case maps.Equal(state.Active, s.Declared.Settings):
		return nil
	}
	before, lost := s.Recall(state.Active)
	if len(lost) > 0 {
		s.Log.Warn("cannot resolve references in the previous settings of the connector, its update event has "+
			"them empty", "connector_id", s.ID, "settings", lost)
	}
	return s.Connector.LifecycleOnUpdated(ctx, before, s.Settings)
}
