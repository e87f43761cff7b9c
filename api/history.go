package api

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

func (s *Server) status(_ http.ResponseWriter, r *http.Request) (any, error) {
	d, err := s.pipeline(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	files, err := s.Desired.FileStates(r.Context())
	return s.statusOf(d, files, s.Observed.PluginChanges()), err
}

// statuses answers with the status of every pipeline that is declared or has yet to stop.
func (s *Server) statuses(_ http.ResponseWriter, r *http.Request) (any, error) {
	all, err := s.Desired.Declarations(r.Context())
	if err != nil {
		return nil, err
	}
	files, err := s.Desired.FileStates(r.Context())
	changes := s.Observed.PluginChanges()
	list := make([]rest.PipelineStatus, 0, len(all))
	for i := range all {
		if one := s.statusOf(&all[i], files, changes); one.Withdrawn == nil || one.State.Phase != spec.PhaseStopped {
			list = append(list, one)
		}
	}
	return list, err
}

// statusOf returns what is known of d's pipeline.
func (s *Server) statusOf(d *spec.Declaration, files []spec.FileState, changes []spec.PluginChange) rest.PipelineStatus {
	state, known := s.Observed.State(d.Pipeline.ID)
	if !known {
		state = spec.State{PipelineID: d.Pipeline.ID, Phase: spec.PhaseStopped, StoppedByUser: true, Since: d.CreatedAt}
	}
	if state.LastGood != nil {
		state.LastGood = &spec.LastGood{Generation: state.LastGood.Generation, Pipeline: redacted(&state.LastGood.Pipeline)}
	}
	body := rest.PipelineStatus{ID: d.Pipeline.ID, Owner: d.Owner, Generation: d.Generation, Digest: d.Digest,
		Declared: d.Pipeline.Status, Override: d.Override, State: state, Problems: []spec.Problem{}}
	if !d.Withdrawn.IsZero() {
		body.Withdrawn = &d.Withdrawn
	}
	for _, f := range files {
		for _, p := range f.Problems {
			if p.Pipeline == d.Pipeline.ID || p.Pipeline == "" && d.Owner.Kind == spec.OwnerFile && f.Path == d.Owner.Path {
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

// history answers for pipelines that are deleted, too.
func (s *Server) history(_ http.ResponseWriter, r *http.Request) (any, error) {
	id := r.PathValue("id")
	revisions, err := s.Desired.History(r.Context(), id)
	if err != nil {
		return nil, err
	}
	if len(revisions) == 0 {
		_, err = s.pipeline(r.Context(), id)
	}
	list := []spec.Revision{}
	for _, revision := range revisions {
		if revision.Spec != nil {
			shown := redacted(revision.Spec)
			revision.Spec = &shown
		}
		list = append(list, revision)
	}
	return list, err
}

// rollback declares what a revision declared, but for the status: what runs goes on
// running, and what is stopped stays so.
func (s *Server) rollback(w http.ResponseWriter, r *http.Request) (any, error) {
	var body rest.Rollback
	if err := read(w, r, &body); err != nil {
		return nil, err
	}
	id := r.PathValue("id")
	revisions, err := s.Desired.History(r.Context(), id)
	if err != nil {
		return nil, err
	}
	d, err := s.edit(w, r, &edit{
		id: id, current: pipelineTag, origin: fmt.Sprintf("rollback to %d", body.Revision),
		apply: func(p *spec.Pipeline) error {
			i := slices.IndexFunc(revisions, func(v spec.Revision) bool { return v.Number == body.Revision && v.Spec != nil })
			if i < 0 {
				return rest.Errorf(rest.NotFound, rest.ReasonRevisionNotFound, "revision %d of pipeline %q not found", body.Revision, id).
					With("configPath", "revision").Suggest("GET /v1/pipelines/%s/history lists the revisions there are", id)
			}
			status := p.Status
			*p = *revisions[i].Spec.Clone()
			p.Status = status
			return nil
		},
	})
	return s.present(w, d, err)
}

// adopt hands a pipeline over to the file that declares it, or to the API, without a
// restart unless the new owner declares something else.
func (s *Server) adopt(w http.ResponseWriter, r *http.Request) (any, error) {
	var body rest.Adopt
	if err := read(w, r, &body); err != nil {
		return nil, err
	}
	d, err := s.pipeline(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	owner, err := s.heir(r, d, &body)
	if err != nil {
		return nil, err
	}
	if err := matches(r, tag(d.Pipeline)); err != nil {
		return nil, err
	}
	by, p := cmp.Or(owner.Path, "the API"), d.Pipeline
	if owner.Kind == spec.OwnerAPI {
		p.Status = d.Want() // only what a file declares is overridden
	}
	changes := &spec.Changes{Declare: []spec.Declare{{Pipeline: p, Owner: owner, Origin: "adopted by " + by}},
		Events: []spec.Event{{Pipeline: d.Pipeline.ID, File: cmp.Or(owner.Path, d.Owner.Path), Type: "normal", Reason: "Adopted", Message: by + " takes it over"}}}
	if err := s.apply(r.Context(), changes, map[string]*spec.Declaration{d.Pipeline.ID: d}); err != nil {
		return nil, conflict(err)
	}
	d, err = s.pipeline(r.Context(), d.Pipeline.ID)
	return s.present(w, d, err)
}

// heir returns who takes d over.
func (s *Server) heir(r *http.Request, d *spec.Declaration, body *rest.Adopt) (spec.Owner, error) {
	switch body.Owner {
	case spec.OwnerFile, "":
		if d.Owner.Kind == spec.OwnerFile {
			return spec.Owner{}, rest.Errorf(rest.FailedPrecondition, spec.CodeInvalid, "pipeline %q belongs to %s already", d.Pipeline.ID, d.Owner.Path).
				With("configPath", "owner").Suggest("to have another file declare it, move it there")
		}
		path, err := s.claimant(r, d.Pipeline.ID, body.Path)
		return spec.Owner{Kind: spec.OwnerFile, Path: path}, err
	case spec.OwnerAPI:
		if d.Owner.Kind == spec.OwnerAPI {
			return spec.Owner{}, rest.Errorf(rest.FailedPrecondition, spec.CodeInvalid, "pipeline %q belongs to the API already", d.Pipeline.ID).With("configPath", "owner")
		}
		return spec.Owner{Kind: spec.OwnerAPI}, nil
	}
	return spec.Owner{}, fieldError(spec.CodeInvalid, "owner", "owner must be file or api")
}

// conflict makes of errStale what a client is told.
func conflict(err error) error {
	if err == errStale {
		return rest.Errorf(rest.Aborted, rest.ReasonChanged, "somebody else changed it in the meantime").Suggest("try again")
	}
	return err
}

// claimant returns the path of the only file that declares pipeline id, or of the one asked for.
func (s *Server) claimant(r *http.Request, id, path string) (string, error) {
	files, err := s.Desired.FileStates(r.Context())
	if err != nil {
		return "", err
	}
	var paths []string
	for _, f := range files {
		if slices.Contains(f.Pipelines, id) && (path == "" || path == f.Path) {
			paths = append(paths, f.Path)
		}
	}
	switch len(paths) {
	case 1:
		return paths[0], nil
	case 0:
		return "", rest.Errorf(rest.FailedPrecondition, rest.ReasonNoFile, "no file declares pipeline %q", id).
			Suggest("write it to a file first: POST /v1/pipelines/%s/export shows what to write", id)
	}
	return "", fieldError(spec.CodeRequired, "path", fmt.Sprintf("%d files declare pipeline %q: say which one takes it over", len(paths), id))
}

// reload reads the files now, and answers with what is known of them then.
func (s *Server) reload(w http.ResponseWriter, r *http.Request) (any, error) {
	var body rest.Reload
	if err := read(w, r, &body); err != nil {
		return nil, err
	}
	if s.Reload == nil {
		return nil, notFound()
	}
	if err := s.Reload(r.Context(), body.Prune); err != nil {
		if r.Context().Err() != nil {
			return nil, r.Context().Err()
		}
		return nil, rest.Errorf(rest.Unavailable, rest.ReasonUnavailable, "%v", err)
	}
	return s.listFiles(w, r)
}

func (s *Server) listFiles(_ http.ResponseWriter, r *http.Request) (any, error) {
	files, err := s.Desired.FileStates(r.Context())
	if files == nil {
		files = []spec.FileState{}
	}
	directory := s.Observed.Directory().State
	for i := range files {
		if files[i].Pipelines == nil {
			files[i].Pipelines = []string{}
		}
		if directory != "" && !directory.Followed() {
			files[i].Unseen = directory
		}
	}
	return files, err
}
