package api

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/spelling"
)

var connectorTypes = map[rest.ConnectorType]spec.ConnectorType{
	rest.TypeSource:      spec.TypeSource,
	rest.TypeDestination: spec.TypeDestination,
}

func connectorType(t rest.ConnectorType) (spec.ConnectorType, error) {
	if typ, ok := connectorTypes[t]; ok {
		return typ, nil
	}
	message := "type must be TYPE_SOURCE or TYPE_DESTINATION, not " + strconv.Quote(string(t))
	e := fieldError(rest.ReasonConnectorType, "type", message)
	if near := spelling.Closest(string(t), t.Enum()); near != "" {
		e.Suggest("did you mean %q?", near)
	}
	return "", e
}

// shownConnector returns connector i of d as the API shows it.
func (s *Server) shownConnector(ctx context.Context, d *spec.Declaration, i int) (rest.Connector, error) {
	c := &d.Pipeline.Connectors[i]
	body := rest.Connector{
		ID: d.Pipeline.QualifiedID(c.ID), Type: rest.TypeDestination, Plugin: c.Plugin, PipelineID: d.Pipeline.ID,
		Config: rest.ConnectorConfig{Name: c.Name, Settings: redact(c.Settings)}, ProcessorIDs: []string{},
		CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt,
	}
	for j := range c.Processors {
		body.ProcessorIDs = append(body.ProcessorIDs, body.ID+":"+c.Processors[j].ID)
	}
	if c.Type == spec.TypeDestination {
		return body, nil
	}
	body.Type = rest.TypeSource
	position, err := s.Observed.Position(ctx, body.ID)
	if position != nil {
		body.SourceState = &rest.SourceState{Position: position}
	}
	return body, err
}

func (s *Server) listConnectors(_ http.ResponseWriter, r *http.Request) (any, error) {
	all, err := s.declared(r.Context())
	if err != nil {
		return nil, err
	}
	list, of := []rest.Connector{}, r.URL.Query().Get("pipelineId")
	for i := range all {
		if of != "" && of != all[i].Pipeline.ID {
			continue
		}
		for j := range all[i].Pipeline.Connectors {
			c, err := s.shownConnector(r.Context(), &all[i], j)
			if err != nil {
				return nil, err
			}
			list = append(list, c)
		}
	}
	sortByID(list, func(c rest.Connector) string { return c.ID })
	return list, nil
}

// presentConnector answers with a connector and its ETag.
func (s *Server) presentConnector(w http.ResponseWriter, r *http.Request, id string) (any, error) {
	d, i, err := s.connector(r.Context(), id)
	if err != nil {
		return nil, err
	}
	w.Header().Set("ETag", tag(d.Pipeline.Connectors[i]))
	return s.shownConnector(r.Context(), d, i)
}

func (s *Server) getConnector(w http.ResponseWriter, r *http.Request) (any, error) {
	return s.presentConnector(w, r, r.PathValue("id"))
}

func (s *Server) createConnector(w http.ResponseWriter, r *http.Request) (any, error) {
	var body rest.Connector
	if err := read(w, r, &body); err != nil {
		return nil, err
	}
	typ, err := connectorType(body.Type)
	if err != nil {
		return nil, err
	}
	if body.PipelineID == "" {
		return nil, fieldError(spec.CodeRequired, "pipelineId", "pipelineId is missing: it says which pipeline the connector is part of")
	}
	d, err := s.pipeline(r.Context(), body.PipelineID)
	if err != nil {
		return nil, about(err, "pipelineId")
	}
	settings, err := keep(body.Config.Settings, nil, "config.settings")
	if err != nil {
		return nil, err
	}
	c := spec.Connector{ID: identify(body.ID, body.PipelineID), Type: typ, Plugin: body.Plugin, Name: body.Config.Name, Settings: settings}
	id := d.Pipeline.QualifiedID(c.ID)
	if _, _, err := s.connector(r.Context(), id); err == nil {
		return nil, rest.Errorf(rest.AlreadyExists, rest.ReasonConnectorExists, "connector %q exists already", id).
			With("configPath", "id").Suggest("choose another id, or leave it out to get one")
	}
	e := &edit{id: body.PipelineID}
	e.apply = func(p *spec.Pipeline) error {
		e.prefix = "/connectors/" + strconv.Itoa(len(p.Connectors))
		p.Connectors = append(p.Connectors, c)
		return nil
	}
	if _, err := s.edit(w, r, e); err != nil {
		return nil, err
	}
	return s.presentConnector(w, r, id)
}

// editConnector changes the connector with the qualified id.
func (s *Server) editConnector(w http.ResponseWriter, r *http.Request, id string, apply func(p *spec.Pipeline, i int) error) error {
	d, _, err := s.connector(r.Context(), id)
	if err != nil {
		return err
	}
	e := &edit{id: d.Pipeline.ID}
	e.current = func(p *spec.Pipeline) string {
		if i := connectorIn(p, id); i >= 0 {
			return tag(p.Connectors[i])
		}
		return ""
	}
	e.apply = func(p *spec.Pipeline) error {
		i := connectorIn(p, id)
		if i < 0 {
			return rest.Errorf(rest.NotFound, rest.ReasonConnectorNotFound, "connector %q not found", id)
		}
		e.prefix = "/connectors/" + strconv.Itoa(i)
		return apply(p, i)
	}
	_, err = s.edit(w, r, e)
	return err
}

func (s *Server) updateConnector(w http.ResponseWriter, r *http.Request) (any, error) {
	var body rest.Connector
	if err := read(w, r, &body); err != nil {
		return nil, err
	}
	id := r.PathValue("id")
	err := s.editConnector(w, r, id, func(p *spec.Pipeline, i int) error {
		c := &p.Connectors[i]
		if body.ID != "" && body.ID != id {
			return mismatch("id", id, body.ID)
		}
		if typ, ok := connectorTypes[body.Type]; body.Type != "" && (!ok || typ != c.Type) {
			return fieldError(rest.ReasonConnectorType, "type", "the type of a connector cannot be changed; delete it and create another")
		}
		if body.PipelineID != "" && body.PipelineID != p.ID {
			return mismatch("pipelineId", p.ID, body.PipelineID)
		}
		settings, err := keep(body.Config.Settings, c.Settings, "config.settings")
		c.Settings = settings
		if body.Plugin != "" {
			c.Plugin = body.Plugin
		}
		if body.Config.Name != "" {
			c.Name = body.Config.Name
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.presentConnector(w, r, id)
}

// deleteConnector answers when the connector is cleaned up. While its pipeline runs it
// is left to the reconciler, which does it when a version without the connector runs.
func (s *Server) deleteConnector(w http.ResponseWriter, r *http.Request) (any, error) {
	id, pipelineID := r.PathValue("id"), ""
	limit, err := waitOf(r)
	if err != nil {
		return nil, err
	}
	if err := s.needed(r, id); err != nil {
		return nil, err
	}
	err = s.editConnector(w, r, id, func(p *spec.Pipeline, i int) error {
		pipelineID = p.ID
		if n := len(p.Connectors[i].Processors); n > 0 {
			return rest.Errorf(rest.FailedPrecondition, rest.ReasonConnectorProcessors, "connector %q has %d processors", id, n).
				Suggest("delete its processors first")
		}
		p.Connectors = append(p.Connectors[:i:i], p.Connectors[i+1:]...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if d, err := s.pipeline(r.Context(), pipelineID); err == nil && s.active(d) {
		return rest.Empty{}, nil
	}
	return rest.Empty{}, s.cleanUp(w, r, limit, id)
}

// needed returns an error if a pipeline that runs could not do so without the connector.
func (s *Server) needed(r *http.Request, id string) error {
	d, i, err := s.connector(r.Context(), id)
	if err != nil || owned(d) != nil || !s.active(d) {
		return err
	}
	c := &d.Pipeline.Connectors[i]
	for j := range d.Pipeline.Connectors {
		if j != i && d.Pipeline.Connectors[j].Type == c.Type {
			return nil
		}
	}
	return rest.Errorf(rest.FailedPrecondition, rest.ReasonPipelineRunning, "pipeline %q is running and connector %q is its only %s", d.Pipeline.ID, id, c.Type).
		Suggest("stop the pipeline first, or add another %s", c.Type)
}

// cleanUp returns when a connector that was deleted is cleaned up, or after limit. It is
// gone for good, so the clean-up goes on when the client goes.
func (s *Server) cleanUp(w http.ResponseWriter, r *http.Request, limit time.Duration, id string) error {
	ctx, cancel := s.long(w, r.WithContext(context.WithoutCancel(r.Context())))
	cleaned := make(chan error, 1)
	go func() {
		defer cancel()
		cleaned <- s.Observed.CleanUp(ctx, id)
	}()
	if limit == 0 {
		return nil
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-cleaned:
		if err != nil {
			return rest.Errorf(rest.Internal, rest.ReasonConnectorCleanUp, "connector %q is deleted, but its clean-up failed: %v", id, err).
				Suggest("it is tried again when its pipeline runs or is deleted")
		}
		return nil
	case <-timer.C:
	case <-r.Context().Done():
	}
	return rest.Errorf(rest.DeadlineExceeded, rest.ReasonTimeout, "connector %q is deleted and being cleaned up, which is still not done", id).
		Suggest("it goes on; if it fails, it is tried again when its pipeline runs or is deleted")
}

func (s *Server) validateConnector(w http.ResponseWriter, r *http.Request) (any, error) {
	var body rest.Validation
	if err := read(w, r, &body); err != nil {
		return nil, err
	}
	typ, err := connectorType(body.Type)
	if err != nil {
		return nil, err
	}
	p := &spec.Pipeline{ID: "validate", Status: spec.StatusStopped, Connectors: []spec.Connector{
		{ID: "connector", Type: typ, Plugin: body.Plugin, Name: body.Config.Name, Settings: body.Config.Settings}}}
	spec.Normalize(p)
	if err := validate(p, within("/connectors/0")); err != nil {
		return nil, err
	}
	err = s.checkPlugin(r.Context(), typ, body.Plugin, body.Config.Settings, "plugin", "config.settings")
	return rest.Empty{}, err
}
