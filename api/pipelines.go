package api

import (
	"errors"
	"net/http"
	"regexp"
	"time"

	"github.com/google/uuid"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

func newID() string { return uuid.NewString() }

// shown returns a pipeline as the API shows it.
func (s *Server) shown(d *spec.Declaration) rest.Pipeline {
	p := &d.Pipeline
	body := rest.Pipeline{
		ID: p.ID, State: s.stateOf(d), Config: rest.PipelineConfig{Name: p.Name, Description: p.Description},
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

// stateOf returns what is observed of a pipeline, in the words of the API. A pipeline
// counts as running from when its connectors are open until they are closed.
func (s *Server) stateOf(d *spec.Declaration) rest.PipelineState {
	state, known := s.Observed.State(d.Pipeline.ID)
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
		return running(rest.StatusRunning)
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

// byName returns what is asked for with ?name=, a regular expression for whole names.
func byName(r *http.Request) (*regexp.Regexp, error) {
	name := r.URL.Query().Get("name")
	if name == "" {
		return regexp.MustCompile(""), nil
	}
	re, err := regexp.Compile("^(?:" + name + ")$")
	if err != nil {
		return nil, fieldError(spec.CodeInvalid, "name", "name is not a regular expression: "+err.Error())
	}
	return re, nil
}

func (s *Server) listPipelines(_ http.ResponseWriter, r *http.Request) (any, error) {
	name, err := byName(r)
	if err != nil {
		return nil, err
	}
	all, err := s.declared(r.Context())
	list := []rest.Pipeline{}
	for i := range all {
		if name.MatchString(all[i].Pipeline.Name) {
			list = append(list, s.shown(&all[i]))
		}
	}
	return list, err
}

// present answers with a pipeline and its ETag.
func (s *Server) present(w http.ResponseWriter, d *spec.Declaration, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	w.Header().Set("ETag", tag(d.Pipeline))
	tell(w, d)
	return s.shown(d), nil
}

func (s *Server) getPipeline(w http.ResponseWriter, r *http.Request) (any, error) {
	d, err := s.pipeline(r.Context(), r.PathValue("id"))
	return s.present(w, d, err)
}

func (s *Server) createPipeline(w http.ResponseWriter, r *http.Request) (any, error) {
	var body rest.Pipeline
	if err := read(w, r, &body); err != nil {
		return nil, err
	}
	if body.Config.Name == "" {
		return nil, nameMissing()
	}
	p := &spec.Pipeline{ID: identify(body.ID, ""), Status: spec.StatusStopped, Name: body.Config.Name, Description: body.Config.Description}
	spec.Normalize(p)
	if err := validate(p, within("")); err != nil {
		return nil, err
	}
	if err := s.vacant(r, p.ID); err != nil {
		return nil, err
	}
	changes := &spec.Changes{Declare: []spec.Declare{{Pipeline: *p, Owner: spec.Owner{Kind: spec.OwnerAPI}, Origin: origin}}}
	err := s.apply(r.Context(), changes, map[string]*spec.Declaration{p.ID: nil})
	if errors.Is(err, errStale) {
		err = pipelineExists(p.ID)
	}
	if err != nil {
		return nil, err
	}
	d, err := s.pipeline(r.Context(), p.ID)
	return s.present(w, d, err)
}

func nameMissing() error {
	return rest.Errorf(rest.InvalidArgument, rest.ReasonPipelineNameMissing, "a pipeline needs a name").
		With("configPath", "config.name").Suggest("set config.name")
}

func pipelineExists(id string) error {
	return rest.Errorf(rest.AlreadyExists, rest.ReasonPipelineExists, "pipeline %q exists already", id).
		With("configPath", "id").Suggest("choose another id, or leave it out to get one")
}

// vacant returns an error if a pipeline with this id is there, be it on its way out.
func (s *Server) vacant(r *http.Request, id string) error {
	all, err := s.Desired.Declarations(r.Context())
	for i := range all {
		switch d := &all[i]; {
		case d.Pipeline.ID != id:
		case d.Purge:
			return beingDeleted(id)
		case d.Withdrawn.IsZero():
			return pipelineExists(id)
		default:
			return rest.Errorf(rest.NotOwner, rest.ReasonOwnedByFile, "pipeline %q was declared in %s a short while ago and keeps its position in case the file comes back", id, d.Owner.Path).
				Suggest("choose another id, or DELETE /v1/pipelines/%s to end the wait", id)
		}
	}
	return err
}

func beingDeleted(id string) error {
	return rest.Errorf(rest.Aborted, rest.ReasonPipelineBeingDeleted, "pipeline %q is being deleted", id).Suggest("try again when that is done")
}

func (s *Server) updatePipeline(w http.ResponseWriter, r *http.Request) (any, error) {
	var body rest.Pipeline
	if err := read(w, r, &body); err != nil {
		return nil, err
	}
	id := r.PathValue("id")
	switch {
	case body.ID != "" && body.ID != id:
		return nil, mismatch("id", id, body.ID)
	case body.Config.Name == "":
		return nil, nameMissing()
	}
	d, err := s.edit(w, r, &edit{id: id, live: true, current: pipelineTag, apply: func(p *spec.Pipeline) error {
		p.Name, p.Description = body.Config.Name, body.Config.Description
		return nil
	}})
	return s.present(w, d, err)
}

func pipelineTag(p *spec.Pipeline) string { return tag(*p) }

// deletePipeline answers when the pipeline's clean-up is done. A pipeline that its file
// withdrew may be deleted, too, which ends the wait for the file to come back.
func (s *Server) deletePipeline(w http.ResponseWriter, r *http.Request) (any, error) {
	id := r.PathValue("id")
	limit, err := waitOf(r)
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
		err = s.apply(r.Context(), changes, basis)
		if errors.Is(err, errStale) && r.Context().Err() == nil {
			continue
		}
		if err != nil {
			return nil, err
		}
		return rest.Empty{}, s.wait(w, r, limit, "pipeline "+id+" is being deleted", func() (bool, error) { return s.gone(r, id) })
	}
}

// deletable returns the declaration of a pipeline that may be deleted.
func (s *Server) deletable(r *http.Request, id string) (*spec.Declaration, error) {
	all, err := s.Desired.Declarations(r.Context())
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].Pipeline.ID == id && !all[i].Withdrawn.IsZero() {
			return &all[i], nil
		}
	}
	d, err := s.pipeline(r.Context(), id)
	if err != nil {
		return nil, err
	}
	if err := s.editable(r, d, &edit{live: true, current: pipelineTag}); err != nil {
		return nil, err
	}
	switch {
	case s.active(d):
		return nil, running(id).Suggest("stop it first")
	case len(d.Pipeline.Connectors) > 0:
		return nil, rest.Errorf(rest.FailedPrecondition, rest.ReasonPipelineConnectors, "pipeline %q has %d connectors", id, len(d.Pipeline.Connectors)).
			Suggest("delete its connectors first")
	case len(d.Pipeline.Processors) > 0:
		return nil, rest.Errorf(rest.FailedPrecondition, rest.ReasonPipelineProcessors, "pipeline %q has %d processors", id, len(d.Pipeline.Processors)).
			Suggest("delete its processors first")
	}
	return d, nil
}

// gone reports whether a pipeline was forgotten, or is declared anew.
func (s *Server) gone(r *http.Request, id string) (bool, error) {
	all, err := s.Desired.Declarations(r.Context())
	for i := range all {
		if all[i].Pipeline.ID == id {
			return all[i].Withdrawn.Equal(time.Time{}), err
		}
	}
	return err == nil, err
}
