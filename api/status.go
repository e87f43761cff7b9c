package api

import (
	"net/http"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// statusHandlers reports the status of pipelines.
type statusHandlers struct {
	shared
	PluginChanges func() []spec.PluginChange // see Server
}

// Get answers with the declaration, the running version and the problems of a pipeline.
func (s *statusHandlers) Get(_ http.ResponseWriter, r *http.Request) (any, error) {
	d, err := s.Desired.Pipeline(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	files, err := s.Desired.FileStates(r.Context())
	body := s.statusOf(s.view(r), d, files, s.PluginChanges())
	body.Rates = s.rates()[d.Pipeline.ID]
	return body, err
}

// List answers with the status of every pipeline that is declared or has yet to stop.
func (s *statusHandlers) List(_ http.ResponseWriter, r *http.Request) (any, error) {
	list, err := s.All(r)
	rates := s.rates()
	for i := range list {
		if one := rates[list[i].ID]; one != nil {
			one.Series = nil // for a thousand pipelines they are a megabyte
			list[i].Rates = one
		}
	}
	return list, err
}

// rates returns the rates of the running pipelines, by id.
func (s *statusHandlers) rates() map[string]*spec.PipelineRates {
	if s.Rates == nil {
		return nil
	}
	all := s.Rates()
	byID := make(map[string]*spec.PipelineRates, len(all))
	for i := range all {
		byID[all[i].ID] = &all[i]
	}
	return byID
}

// All returns the status of every pipeline that is declared or has yet to stop. It leaves out the rates, which change
// every second.
func (s *statusHandlers) All(r *http.Request) ([]rest.PipelineStatus, error) {
	all, err := s.Desired.Declarations(r.Context())
	if err != nil {
		return nil, err
	}
	files, err := s.Desired.FileStates(r.Context())
	view, changes := s.view(r), s.PluginChanges()
	list := make([]rest.PipelineStatus, 0, len(all))
	for i := range all {
		if one := s.statusOf(view, &all[i], files, changes); one.Withdrawn == nil ||
			one.State.Phase != spec.PhaseStopped {
			list = append(list, one)
		}
	}
	return list, err
}

// statusOf returns the status of d's pipeline.
func (s *statusHandlers) statusOf(
	view *view, d *spec.Declaration, files []spec.FileState, changes []spec.PluginChange,
) rest.PipelineStatus {
	state, known := s.Loop.State(d.Pipeline.ID)
	if !known {
		state = spec.State{PipelineID: d.Pipeline.ID, Phase: spec.PhaseStopped, StoppedByUser: true, Since: d.CreatedAt}
	}
	if state.LastGood != nil {
		state.LastGood = &spec.LastGood{Generation: state.LastGood.Generation,
			Pipeline: view.Pipeline(&state.LastGood.Pipeline)}
	}
	body := rest.PipelineStatus{ID: d.Pipeline.ID, Name: d.Pipeline.Name, Owner: d.Owner, Generation: d.Generation,
		Digest: d.Digest,
		Labels: d.Pipeline.Labels, Declared: d.Pipeline.Status, Override: d.Override, State: state,
		Problems: []spec.Problem{}}
	if d.Withdrawn.IsZero() && d.Want() == spec.StatusRunning {
		body.Placement = s.Placements.Assignment(d.Pipeline.ID)
	}
	body.Instances = s.Placements.Instances(d)
	body.Terms, body.DeadLettersElsewhere = s.Placements.Terms(
		d.Pipeline.ID,
	), s.Placements.DeadLettersElsewhere(
		d.Pipeline.ID,
	)
	if !d.Withdrawn.IsZero() {
		body.Withdrawn = &d.Withdrawn
	}
	for _, f := range files {
		for _, p := range f.Problems {
			if p.Pipeline == d.Pipeline.ID || p.Pipeline == "" && d.Owner.Kind == spec.OwnerFile &&
				f.Path == d.Owner.Path {
				body.Problems = append(body.Problems, p)
			}
		}
	}
	var own []spec.PluginChange
	for _, c := range changes {
		if c.Pipeline == d.Pipeline.ID {
			own = append(own, c)
		}
	}
	body.Conditions = spec.Conditions(d, &state, body.Problems, own)
	return body
}
