package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/conduit-agent/conduit/api/guard"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/texts"
)

var connectorTypes = map[rest.ConnectorType]spec.ConnectorType{
	rest.TypeSource:      spec.TypeSource,
	rest.TypeDestination: spec.TypeDestination,
}

// connectorRoutes returns the operations of connectors.
func (s *Server) connectorRoutes(base shared) []route {
	connectors := &connectorHandlers{shared: base, Position: s.Position, CleanUp: s.CleanUp}
	return []route{
		{operation{Method: get, Path: "/v1/connectors", ID: "listConnectors", Tag: "connectors",
			Summary:  "List connectors",
			Query:    []param{{Name: "pipelineId", Description: "only those of this pipeline"}},
			Response: list(exampleConnector)}, connectors.List, guard.Read, nil},
		{operation{Method: post, Path: "/v1/connectors", ID: "createConnector", Tag: "connectors",
			Summary:     "Create a connector",
			Description: "The plugin is started to check the settings, and stopped.",
			Query:       live, Headers: postHeaders, Request: requestConnector, Answer: generation,
			Response: exampleConnector, Errors: []int{400, 404, 409}}, connectors.Create, guard.Admin, nil},
		{operation{Method: get, Path: "/v1/connectors/{id}", ID: "getConnector", Tag: "connectors",
			Summary:  "Get a connector and its position",
			Response: exampleConnector, Errors: []int{404}}, connectors.Get, guard.Read, nil},
		{operation{Method: put, Path: "/v1/connectors/{id}", ID: "updateConnector", Tag: "connectors",
			Summary:     "Replace the settings of a connector",
			Description: "If plugin is omitted, it does not change. Settings sent as *** keep their values.",
			Query:       live, Headers: ifMatch, Request: updateConnector, Answer: generation,
			Response: exampleConnector, Errors: []int{400, 404, 409, 412}}, connectors.Update, guard.Admin, nil},
		{operation{Method: remove, Path: "/v1/connectors/{id}", ID: "deleteConnector", Tag: "connectors",
			Summary:     "Delete a connector",
			Description: "If the connector ever ran, its plugin is started once more to clean up.",
			Query:       []param{liveParam, waitParam}, Headers: ifMatch, Answer: generation, Response: empty,
			Errors: []int{400, 404, 409, 412, 500, 504}}, connectors.Delete, guard.Admin, nil},
		{operation{Method: post, Path: "/v1/connectors/validate", ID: "validateConnector", Tag: "connectors",
			Summary: "Check the settings of a connector without creating it",
			Request: exampleValidation, Response: empty, Errors: []int{400, 404}}, connectors.Validate, guard.Admin,
			nil},
		{inspection("/v1/connectors/{id}/inspect", "inspectConnector", "connectors",
			"Watch the records that pass through a connector"), s.inspect, guard.Read, nil},
		{inspection("/v1/connectors/{id}/inspect-in", "inspectDestinationIn", "connectors",
			"Watch the records of a destination before its processors"), s.inspectDestination(InspectIn),
			guard.Read, nil},
		{inspection("/v1/connectors/{id}/inspect-out", "inspectDestinationOut", "connectors",
			"Watch the records of a destination after its processors"), s.inspectDestination(InspectOut),
			guard.Read, nil},
	}
}

// connectorHandlers performs the operations on connectors.
type connectorHandlers struct {
	shared
	Position func(ctx context.Context, connectorID string) (record.Position, error) // see Server
	CleanUp  func(ctx context.Context, connectorID string) error                    // see Server
}

func connectorType(t rest.ConnectorType) (spec.ConnectorType, error) {
	if typ, ok := connectorTypes[t]; ok {
		return typ, nil
	}
	message := "type must be TYPE_SOURCE or TYPE_DESTINATION, not " + strconv.Quote(string(t))
	e := fieldError(rest.ReasonConnectorType, "type", message)
	if near := texts.Closest(string(t), t.Enum()); near != "" {
		e.Suggest("did you mean %q?", near)
	}
	return "", e
}

// shown returns connector i of d in the form of the API.
func (s *connectorHandlers) shown(ctx context.Context, view *view, d *spec.Declaration, i int) (rest.Connector, error) {
	c := &d.Pipeline.Connectors[i]
	body := rest.Connector{
		ID: d.Pipeline.QualifiedID(c.ID), Type: rest.TypeDestination, Plugin: c.Plugin, PipelineID: d.Pipeline.ID,
		Config:       rest.ConnectorConfig{Name: c.Name, Settings: view.Settings(c.Type, c.Plugin, c.Settings)},
		ProcessorIDs: []string{},
		CreatedAt:    d.CreatedAt, UpdatedAt: d.UpdatedAt,
	}
	if c.Condition != "" {
		body.Config.Condition = &c.Condition
	}
	if c.Default {
		body.Config.Default = &c.Default
	}
	body.Config.Isolate = c.Isolate.Clone()
	for j := range c.Processors {
		body.ProcessorIDs = append(body.ProcessorIDs, body.ID+":"+c.Processors[j].ID)
	}
	if c.Type == spec.TypeDestination {
		return body, nil
	}
	body.Type = rest.TypeSource
	position, err := s.Position(ctx, body.ID)
	if position != nil {
		body.SourceState = &rest.SourceState{Position: position}
	}
	return body, err
}

// setRoute sets which records c gets and whether it is isolated, as far as the request says so.
func setRoute(c *spec.Connector, config rest.ConnectorConfig) error {
	if config.Condition != nil {
		c.Condition = *config.Condition
	}
	if config.Default != nil {
		c.Default = *config.Default
	}
	if config.Isolate != nil {
		c.Isolate = config.Isolate.Clone()
	}
	switch {
	case config.Isolated == nil:
	case *config.Isolated && c.Isolate == nil:
		c.Isolate = &spec.Isolation{}
	case !*config.Isolated && config.Isolate != nil:
		return fieldError(rest.ReasonInvalid, "config.isolated", "isolated is false, but isolate has limits: leave one out")
	case !*config.Isolated:
		c.Isolate = nil
	}
	c.Isolate.Normalize()
	return nil
}

// List answers with all connectors, or with the connectors of a pipeline.
func (s *connectorHandlers) List(_ http.ResponseWriter, r *http.Request) (any, error) {
	all, err := s.Desired.Declared(r.Context())
	if err != nil {
		return nil, err
	}
	view, list, pipelineID := s.view(r), []rest.Connector{}, r.URL.Query().Get("pipelineId")
	for i := range all {
		if pipelineID != "" && pipelineID != all[i].Pipeline.ID {
			continue
		}
		for j := range all[i].Pipeline.Connectors {
			c, err := s.shown(r.Context(), view, &all[i], j)
			if err != nil {
				return nil, err
			}
			list = append(list, c)
		}
	}
	sortByID(list, func(c rest.Connector) string { return c.ID })
	return list, nil
}

// present answers with the connector id of d and its ETag.
func (s *connectorHandlers) present(
	w http.ResponseWriter, r *http.Request, d *spec.Declaration, id string,
) (any, error) {
	i := connectorIn(&d.Pipeline, id)
	if i < 0 { // another change was faster
		return nil, connectorNotFound(id)
	}
	w.Header().Set("ETag", etag(d.Pipeline.Connectors[i]))
	return s.shown(r.Context(), s.view(r), d, i)
}

// Get answers with a connector.
func (s *connectorHandlers) Get(w http.ResponseWriter, r *http.Request) (any, error) {
	id := r.PathValue("id")
	d, _, err := s.Desired.Connector(r.Context(), id)
	if err != nil {
		return nil, err
	}
	return s.present(w, r, d, id)
}

// Create adds a connector to a pipeline.
func (s *connectorHandlers) Create(w http.ResponseWriter, r *http.Request) (any, error) {
	var body rest.Connector
	if err := readJSON(w, r, &body); err != nil {
		return nil, err
	}
	typ, err := connectorType(body.Type)
	if err != nil {
		return nil, err
	}
	if body.PipelineID == "" {
		return nil, fieldError(spec.CodeRequired, "pipelineId",
			"pipelineId is missing: set the id of the connector's pipeline")
	}
	d, err := s.Desired.Pipeline(r.Context(), body.PipelineID)
	if err != nil {
		return nil, about(err, "pipelineId")
	}
	settings, err := keepSecrets(body.Config.Settings, nil, "config.settings")
	if err != nil {
		return nil, err
	}
	c := spec.Connector{ID: identify(body.ID, body.PipelineID), Type: typ, Plugin: body.Plugin, Name: body.Config.Name,
		Settings: settings}
	if err := setRoute(&c, body.Config); err != nil {
		return nil, err
	}
	id := d.Pipeline.QualifiedID(c.ID)
	if connectorIn(&d.Pipeline, id) >= 0 {
		return nil, rest.Errorf(rest.AlreadyExists, rest.ReasonConnectorExists, "connector %q exists already", id).
			With("configPath", "id").Suggest("choose another id, or leave it out to get one")
	}
	e := &edit{ID: body.PipelineID, Of: d}
	e.Apply = func(p *spec.Pipeline) error {
		e.Path = "/connectors/" + strconv.Itoa(len(p.Connectors))
		p.Connectors = append(p.Connectors, c)
		return nil
	}
	if d, err = s.edit(w, r, e); err != nil {
		return nil, err
	}
	return s.present(w, r, d, id)
}

// change changes the connector of d with the qualified id, and returns the resulting declaration.
func (s *connectorHandlers) change(
	w http.ResponseWriter, r *http.Request, d *spec.Declaration, id string, apply func(p *spec.Pipeline, i int) error,
) (*spec.Declaration, error) {
	e := &edit{ID: d.Pipeline.ID, Of: d}
	e.Current = func(p *spec.Pipeline) string {
		if i := connectorIn(p, id); i >= 0 {
			return etag(p.Connectors[i])
		}
		return ""
	}
	e.Apply = func(p *spec.Pipeline) error {
		i := connectorIn(p, id)
		if i < 0 {
			return connectorNotFound(id)
		}
		e.Path = "/connectors/" + strconv.Itoa(i)
		return apply(p, i)
	}
	return s.edit(w, r, e)
}

// Update replaces the settings of a connector.
func (s *connectorHandlers) Update(w http.ResponseWriter, r *http.Request) (any, error) {
	var body rest.Connector
	if err := readJSON(w, r, &body); err != nil {
		return nil, err
	}
	id := r.PathValue("id")
	d, _, err := s.Desired.Connector(r.Context(), id)
	if err != nil {
		return nil, err
	}
	d, err = s.change(w, r, d, id, func(p *spec.Pipeline, i int) error {
		c := &p.Connectors[i]
		if body.ID != "" && body.ID != id {
			return mismatch("id", id, body.ID)
		}
		if typ, ok := connectorTypes[body.Type]; body.Type != "" && (!ok || typ != c.Type) {
			return fieldError(rest.ReasonConnectorType, "type",
				"the type of a connector cannot be changed; delete it and create another")
		}
		if body.PipelineID != "" && body.PipelineID != p.ID {
			return mismatch("pipelineId", p.ID, body.PipelineID)
		}
		settings, err := keepSecrets(body.Config.Settings, c.Settings, "config.settings")
		if err != nil {
			return err
		}
		c.Settings = settings
		if body.Plugin != "" {
			c.Plugin = body.Plugin
		}
		if body.Config.Name != "" {
			c.Name = body.Config.Name
		}
		return setRoute(c, body.Config)
	})
	if err != nil {
		return nil, err
	}
	return s.present(w, r, d, id)
}

// Delete answers when the connector is cleaned up. While its pipeline runs, the reconciler cleans up once a version
// without the connector runs.
func (s *connectorHandlers) Delete(w http.ResponseWriter, r *http.Request) (any, error) {
	id := r.PathValue("id")
	limit, err := waitTime(r)
	if err != nil {
		return nil, err
	}
	d, i, err := s.Desired.Connector(r.Context(), id)
	if err != nil {
		return nil, err
	}
	if err := s.needed(d, i); err != nil {
		return nil, err
	}
	d, err = s.change(w, r, d, id, func(p *spec.Pipeline, i int) error {
		if n := len(p.Connectors[i].Processors); n > 0 {
			return rest.Errorf(rest.FailedPrecondition, rest.ReasonConnectorProcessors,
				"connector %q has %d processors", id, n).
				Suggest("delete its processors first")
		}
		p.Connectors = append(p.Connectors[:i:i], p.Connectors[i+1:]...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if s.Desired.Active(d) {
		return rest.Empty{}, nil
	}
	return rest.Empty{}, s.cleanUp(w, r, limit, id)
}

// needed returns an error if a running pipeline could not run without its connector i.
func (s *connectorHandlers) needed(d *spec.Declaration, i int) error {
	if owned(d) != nil || !s.Desired.Active(d) {
		return nil
	}
	c := &d.Pipeline.Connectors[i]
	for j := range d.Pipeline.Connectors {
		if j != i && d.Pipeline.Connectors[j].Type == c.Type {
			return nil
		}
	}
	return rest.Errorf(rest.FailedPrecondition, rest.ReasonPipelineRunning,
		"pipeline %q is running and connector %q is its only %s", d.Pipeline.ID, d.Pipeline.QualifiedID(c.ID), c.Type).
		Suggest("stop the pipeline first, or add another %s", c.Type)
}

// cleanUp returns when a deleted connector is cleaned up, or after limit. The deletion is final, so the clean-up
// continues when the client disconnects.
func (s *connectorHandlers) cleanUp(w http.ResponseWriter, r *http.Request, limit time.Duration, id string) error {
	ctx, cancel := s.Long(w, r.WithContext(context.WithoutCancel(r.Context())))
	cleaned := make(chan error, 1)
	go func() {
		defer cancel()
		cleaned <- s.CleanUp(ctx, id)
	}()
	if limit == 0 {
		return nil
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-cleaned:
		switch {
		case err == nil:
			return nil
		case errors.Is(err, spec.ErrBusy):
			return rest.Errorf(rest.Aborted, rest.ReasonConnectorCleaning, "connector %q is deleted and being "+
				"cleaned up", id).
				Suggest("the clean-up continues; try again later")
		}
		return rest.Errorf(rest.Aborted, rest.ReasonConnectorCleanUp, "connector %q is deleted, but its clean-up "+
			"failed: %v", id, err).
			Suggest("the agent retries when its pipeline runs or is deleted")
	case <-timer.C:
	case <-r.Context().Done():
	}
	return rest.Errorf(rest.DeadlineExceeded, rest.ReasonTimeout,
		"connector %q is deleted, but its clean-up is not complete", id).
		Suggest("the clean-up continues; if it fails, it is retried when its pipeline runs or is deleted")
}

// Validate checks a connector without creating it.
func (s *connectorHandlers) Validate(w http.ResponseWriter, r *http.Request) (any, error) {
	var body rest.Validation
	if err := readJSON(w, r, &body); err != nil {
		return nil, err
	}
	typ, err := connectorType(body.Type)
	if err != nil {
		return nil, err
	}
	p := &spec.Pipeline{ID: "validate", Status: spec.StatusStopped, Connectors: []spec.Connector{
		{ID: "connector", Type: typ, Plugin: body.Plugin, Name: body.Config.Name, Settings: body.Config.Settings}}}
	spec.Normalize(p)
	if err := validate(s.Desired.Parser, p, within("/connectors/0")); err != nil {
		return nil, err
	}
	err = s.Desired.CheckPlugin(r.Context(), typ, body.Plugin, body.Config.Settings, "plugin", "config.settings")
	return rest.Empty{}, err
}
