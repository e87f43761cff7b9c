package api

import (
	"errors"
	"net/http"

	"github.com/conduit-agent/conduit/api/guard"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// pipelineRoutes returns the operations of pipelines themselves.
func (s *Server) pipelineRoutes(base shared) []route {
	pipelines := &pipelineHandlers{shared: base}
	runs := &runHandlers{shared: base, RetryPlugins: s.RetryPlugins}
	queue := &deadLetterQueueHandlers{shared: base}
	return []route{
		{operation{Method: get, Path: "/v1/pipelines", ID: "listPipelines", Tag: "pipelines", Summary: "List pipelines",
			Query:    []param{nameParam},
			Response: list(examplePipeline), Errors: []int{400}}, pipelines.List, guard.Read, nil},
		{operation{Method: post, Path: "/v1/pipelines", ID: "createPipeline", Tag: "pipelines",
			Summary:     "Create a pipeline",
			Description: "The pipeline is stopped and empty. The id is optional.", Headers: postHeaders,
			Request: requestPipeline, Answer: generation, Response: examplePipeline, Errors: []int{400, 409}},
			pipelines.Create, guard.Admin, nil},
		{operation{Method: get, Path: "/v1/pipelines/{id}", ID: "getPipeline", Tag: "pipelines",
			Summary: "Get a pipeline",
			Answer:  generation, Response: examplePipeline, Errors: []int{404}}, pipelines.Get, guard.Read, nil},
		{operation{Method: put, Path: "/v1/pipelines/{id}", ID: "updatePipeline", Tag: "pipelines",
			Summary: "Change name and description", Headers: ifMatch,
			Request: requestPipeline, Answer: generation, Response: examplePipeline, Errors: []int{400, 404, 409, 412}},
			pipelines.Update, guard.Admin, nil},
		{operation{Method: remove, Path: "/v1/pipelines/{id}", ID: "deletePipeline", Tag: "pipelines",
			Summary: "Delete a pipeline that is stopped and empty",
			Query:   waits, Headers: ifMatch, Response: empty, Errors: []int{400, 404, 409, 412}}, pipelines.Delete,
			guard.Admin, nil},
		{operation{Method: post, Path: "/v1/pipelines/{id}/start", ID: "startPipeline", Tag: "pipelines",
			Summary: "Start all connectors of a pipeline",
			Description: "Returns when the pipeline runs, or with the reason why it cannot. The pipeline of a file " +
				"runs until the file changes.",
			Query: waits, Headers: actHeaders, Answer: generation, Response: empty,
			Errors: []int{400, 404, 409, 412, 504}}, runs.Start, guard.Admin, nil},
		{operation{Method: post, Path: "/v1/pipelines/{id}/stop", ID: "stopPipeline", Tag: "pipelines",
			Summary: "Stop all connectors of a pipeline",
			Description: "Returns when all in-flight records are settled and the connectors are closed. With " +
				"force it does not wait for in-flight records; they are delivered again.",
			Query: waits, Headers: actHeaders, Request: exampleStop, Optional: true, Answer: generation,
			Response: empty, Errors: []int{400, 404, 409, 412, 504}}, runs.Stop, guard.Admin, nil},
		{operation{Method: post, Path: "/v1/pipelines/{id}/restart", ID: "restartPipeline", Tag: "pipelines",
			Summary: "Stop a pipeline and start it again",
			Query:   waits, Headers: actHeaders, Answer: generation, Response: empty,
			Errors: []int{400, 404, 409, 412, 504}}, runs.Restart, guard.Admin, nil},
		{operation{Method: get, Path: "/v1/pipelines/{id}/dead-letter-queue", ID: "getDLQ", Tag: "pipelines",
			Summary:  "Get the dead-letter queue",
			Response: exampleDeadLetterQueue, Errors: []int{404}}, queue.Get, guard.Read, nil},
		{operation{Method: put, Path: "/v1/pipelines/{id}/dead-letter-queue", ID: "updateDLQ", Tag: "pipelines",
			Summary: "Replace the dead-letter queue",
			Description: "Omitted fields have the defaults of pipeline files: the log plugin, a window of 1, a " +
				"threshold of 0.",
			Query: live, Headers: ifMatch, Request: requestDeadLetterQueue, Answer: generation,
			Response: exampleDeadLetterQueue,
			Errors:   []int{400, 404, 409, 412}}, queue.Update, guard.Admin, nil},
	}
}

// pipelineHandlers serves pipelines without their connectors and processors.
type pipelineHandlers struct{ shared }

// List answers with all pipelines, or with the pipelines of a name.
func (s *pipelineHandlers) List(_ http.ResponseWriter, r *http.Request) (any, error) {
	name, err := namePattern(r)
	if err != nil {
		return nil, err
	}
	all, err := s.Desired.Declared(r.Context())
	list := []rest.Pipeline{}
	for i := range all {
		if name.MatchString(all[i].Pipeline.Name) {
			list = append(list, s.shown(&all[i]))
		}
	}
	return list, err
}

// Get answers with a pipeline.
func (s *pipelineHandlers) Get(w http.ResponseWriter, r *http.Request) (any, error) {
	d, err := s.Desired.Pipeline(r.Context(), r.PathValue("id"))
	return s.present(w, d, err)
}

// Create declares a stopped and empty pipeline.
func (s *pipelineHandlers) Create(w http.ResponseWriter, r *http.Request) (any, error) {
	var body rest.Pipeline
	if err := readJSON(w, r, &body); err != nil {
		return nil, err
	}
	if body.Config.Name == "" {
		return nil, nameMissing()
	}
	p := &spec.Pipeline{ID: identify(body.ID, ""), Status: spec.StatusStopped, Name: body.Config.Name,
		Description: body.Config.Description, Labels: body.Config.Labels,
		Routing: body.Config.Routing}
	spec.Normalize(p)
	if err := validate(s.Desired.Parser, p, within("")); err != nil {
		return nil, err
	}
	if err := s.vacant(r, p.ID); err != nil {
		return nil, err
	}
	changes := &spec.Changes{Declare: []spec.Declare{{Pipeline: *p, Owner: spec.Owner{Kind: spec.OwnerAPI},
		Origin: origin}}}
	err := s.Desired.Apply(r.Context(), changes, map[string]*spec.Declaration{p.ID: nil})
	if errors.Is(err, errStale) {
		err = pipelineExists(p.ID)
	}
	if err != nil {
		return nil, err
	}
	d, err := s.Desired.Pipeline(r.Context(), p.ID)
	return s.present(w, d, err)
}

func nameMissing() error {
	return rest.Errorf(rest.InvalidArgument, rest.ReasonPipelineNameMissing, "a pipeline needs a name").
		With("configPath", "config.name").Suggest("set config.name")
}

// Update changes the name and the description.
func (s *pipelineHandlers) Update(w http.ResponseWriter, r *http.Request) (any, error) {
	var body rest.Pipeline
	if err := readJSON(w, r, &body); err != nil {
		return nil, err
	}
	id := r.PathValue("id")
	switch {
	case body.ID != "" && body.ID != id:
		return nil, mismatch("id", id, body.ID)
	case body.Config.Name == "":
		return nil, nameMissing()
	}
	d, err := s.edit(w, r, &edit{ID: id, Live: true, Current: pipelineTag, Apply: func(p *spec.Pipeline) error {
		p.Name, p.Description = body.Config.Name, body.Config.Description
		if body.Config.Labels != nil {
			p.Labels = body.Config.Labels
		}
		if body.Config.Routing != "" {
			p.Routing = body.Config.Routing
			spec.Normalize(p)
		}
		return nil
	}})
	return s.present(w, d, err)
}

func pipelineTag(p *spec.Pipeline) string { return etag(*p) }

// Delete answers when the pipeline's clean-up is done. A pipeline that its file withdrew can also be deleted, which
// ends the wait for the file to come back.
func (s *pipelineHandlers) Delete(w http.ResponseWriter, r *http.Request) (any, error) {
	id := r.PathValue("id")
	limit, err := waitTime(r)
	if err != nil {
		return nil, err
	}
	for {
		d, err := s.deletable(r, id)
		if err != nil {
			return nil, err
		}
		changes := &spec.Changes{Withdraw: []spec.Withdraw{{ID: id, Origin: origin, Purge: true}}}
		basis := map[string]*spec.Declaration{id: d}
		if !d.Withdrawn.IsZero() {
			basis[id] = nil
		}
		err = s.Desired.Apply(r.Context(), changes, basis)
		if errors.Is(err, errStale) && r.Context().Err() == nil {
			continue
		}
		if err != nil {
			return nil, err
		}
		return rest.Empty{}, s.wait(w, r, limit, "pipeline "+id+" is being deleted", func() (bool, error) {
			return s.gone(r, id)
		})
	}
}

// deletable returns the declaration of a pipeline if it may be deleted.
func (s *pipelineHandlers) deletable(r *http.Request, id string) (*spec.Declaration, error) {
	if d, err := s.Desired.Get(r.Context(), id); err == nil && !d.Withdrawn.IsZero() {
		return &d, nil
	}
	d, err := s.Desired.Pipeline(r.Context(), id)
	if err != nil {
		return nil, err
	}
	if err := s.Desired.Editable(r, d, &edit{Live: true, Current: pipelineTag}); err != nil {
		return nil, err
	}
	switch {
	case s.Desired.Active(d):
		return nil, running(id).Suggest("stop it first")
	case len(d.Pipeline.Connectors) > 0:
		return nil, rest.Errorf(rest.FailedPrecondition, rest.ReasonPipelineConnectors, "pipeline %q has %d connectors",
			id, len(d.Pipeline.Connectors)).
			Suggest("delete its connectors first")
	case len(d.Pipeline.Processors) > 0:
		return nil, rest.Errorf(rest.FailedPrecondition, rest.ReasonPipelineProcessors, "pipeline %q has %d processors",
			id, len(d.Pipeline.Processors)).
			Suggest("delete its processors first")
	}
	return d, nil
}

// gone reports whether a pipeline was forgotten, or is declared again.
func (s *pipelineHandlers) gone(r *http.Request, id string) (bool, error) {
	d, err := s.Desired.Get(r.Context(), id)
	if errors.Is(err, spec.ErrNotFound) {
		return true, nil
	}
	return d.Withdrawn.IsZero(), err
}

// shown returns a pipeline as the API shows it.
func (s *shared) shown(d *spec.Declaration) rest.Pipeline {
	p := &d.Pipeline
	body := rest.Pipeline{
		ID: p.ID, State: s.stateOf(d), Config: rest.PipelineConfig{Name: p.Name, Description: p.Description,
			Labels: p.Labels, Routing: p.Routing},
		ConnectorIDs: []string{}, ProcessorIDs: []string{},
		CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt,
	}
	for i := range p.Connectors {
		body.ConnectorIDs = append(body.ConnectorIDs, p.QualifiedID(p.Connectors[i].ID))
	}
	for i := range p.Processors {
		body.ProcessorIDs = append(body.ProcessorIDs, p.QualifiedID(p.Processors[i].ID))
	}
	return body
}

// stateOf returns the observed state of a pipeline in the vocabulary of the API. A pipeline counts as running from the
// time its connectors are open until they are closed.
func (s *shared) stateOf(d *spec.Declaration) rest.PipelineState {
	state, known := s.Loop.State(d.Pipeline.ID)
	if !known {
		state.Phase, state.StoppedByUser = spec.PhaseStopped, true
	}
	stopped := rest.PipelineState{Status: rest.StatusStopped, StoppedReason: rest.StoppedBySystem}
	if state.StoppedByUser || d.Want() == spec.StatusStopped {
		stopped.StoppedReason = rest.StoppedByUser
	}
	running := func(status rest.PipelineStatusCode) rest.PipelineState {
		return rest.PipelineState{Status: status, StoppedReason: rest.StoppedUnspecified}
	}
	switch state.Phase {
	case spec.PhaseRunning, spec.PhaseStopping:
		return delivering(running(rest.StatusRunning), state.Stall)
	case spec.PhaseRecovering:
		return running(rest.StatusRecovering)
	case spec.PhaseStarting:
		if state.Failures > 0 {
			return running(rest.StatusRecovering)
		}
	case spec.PhaseDegraded:
		degraded := running(rest.StatusDegraded)
		degraded.Error = state.Error
		return degraded
	}
	return stopped
}

// delivering returns the state of a running pipeline, with the reason when it delivers nothing. A pipeline that failed
// stays in recovery until it delivers again.
func delivering(s rest.PipelineState, stall *spec.Stall) rest.PipelineState {
	if stall == nil {
		return s
	}
	if s.Error = stall.Message; stall.Failed {
		s.Status = rest.StatusRecovering
	}
	return s
}

// present answers with a pipeline and its ETag.
func (s *shared) present(w http.ResponseWriter, d *spec.Declaration, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	w.Header().Set("ETag", etag(d.Pipeline))
	setGeneration(w, d)
	return s.shown(d), nil
}
