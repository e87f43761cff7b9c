package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// historyHandlers lists and compares the revisions of pipelines, and restores them.
type historyHandlers struct {
	shared
	// WriteFile replaces the declaration in the file of the owner by p. It returns when desired state is in line with
	// the file, or an error that says why the file is unchanged. nil: files cannot be written.
	WriteFile func(ctx context.Context, owner spec.Owner, p *spec.Pipeline) error
}

// List answers with the revisions of a pipeline, also of a deleted one.
func (s *historyHandlers) List(_ http.ResponseWriter, r *http.Request) (any, error) {
	id := r.PathValue("id")
	revisions, err := s.Desired.History(r.Context(), id)
	if err != nil {
		return nil, err
	}
	if len(revisions) == 0 {
		_, err = s.Desired.Pipeline(r.Context(), id)
	}
	view, list := s.view(r), []spec.Revision{}
	for _, revision := range revisions {
		if revision.Spec != nil {
			shown := view.Pipeline(revision.Spec)
			revision.Spec = &shown
		}
		list = append(list, revision)
	}
	return list, err
}

// Purge forgets the history and the events of a deleted pipeline.
func (s *historyHandlers) Purge(_ http.ResponseWriter, r *http.Request) (any, error) {
	id := r.PathValue("id")
	err := s.Desired.Purge(r.Context(), id)
	switch {
	case errors.Is(err, spec.ErrNotFound):
		return nil, rest.Errorf(rest.NotFound, rest.ReasonPipelineNotFound, "pipeline %q has no history", id).
			With("pipelineId", id)
	case errors.Is(err, spec.ErrConflict):
		return nil, rest.Errorf(rest.FailedPrecondition, rest.ReasonPipelineNotDeleted, "pipeline %q is not deleted",
			id).
			With("pipelineId", id).Suggest("DELETE /v1/pipelines/%s first, or remove its file and wait for "+
			"pipelines.cleanup-delay", id)
	}
	return struct{}{}, err
}

// Rollback declares a revision again, except for its status: a running pipeline keeps running, and a stopped one stays
// stopped. For a pipeline of a file, the revision is written to the file if the request says so.
func (s *historyHandlers) Rollback(w http.ResponseWriter, r *http.Request) (any, error) {
	var body rest.Rollback
	if err := readJSON(w, r, &body); err != nil {
		return nil, err
	}
	id := r.PathValue("id")
	revisions, err := s.Desired.History(r.Context(), id)
	if err != nil {
		return nil, err
	}
	restore := func(p *spec.Pipeline) error {
		was, err := revisionOf(revisions, id, body.Revision)
		if err != nil {
			return err
		}
		status := p.Status
		*p = *was.Clone()
		p.Status = status
		return nil
	}
	if body.File {
		d, err := s.restoreFile(r, id, body.Revision, restore)
		return s.present(w, d, err)
	}
	d, err := s.edit(w, r, &edit{
		ID: id, Current: pipelineTag, Origin: fmt.Sprintf("rollback to %d", body.Revision), Apply: restore,
	})
	var owned *rest.Error
	if errors.As(err, &owned) && owned.Reason == rest.ReasonOwnedByFile && s.WriteFile != nil {
		owned.Suggest("set \"file\": true to write the revision to the file")
	}
	return s.present(w, d, err)
}

// restoreFile writes the result of restore to the file that declares the pipeline.
func (s *historyHandlers) restoreFile(r *http.Request, id string, revision int64,
	restore func(p *spec.Pipeline) error) (*spec.Declaration, error) {
	d, err := s.Desired.Pipeline(r.Context(), id)
	switch {
	case err != nil:
		return nil, err
	case d.Owner.Kind != spec.OwnerFile:
		return nil, fieldError(spec.CodeInvalid, "file",
			fmt.Sprintf("pipeline %q is owned by the API, not by a file", id))
	case s.WriteFile == nil:
		return nil, notFound()
	}
	if err := matches(r, pipelineTag(&d.Pipeline)); err != nil {
		return nil, err
	}
	p := d.Pipeline.Clone()
	if err := restore(p); err != nil {
		return nil, err
	}
	if err := s.WriteFile(r.Context(), d.Owner, p); err != nil {
		if r.Context().Err() != nil {
			return nil, r.Context().Err()
		}
		return nil, rest.Errorf(rest.FailedPrecondition, rest.ReasonFileNotWritten,
			"cannot write revision %d to %s: %v", revision, d.Owner.Path, err).
			With("file", d.Owner.Path).
			Suggest("save the text of POST /v1/pipelines/%s/export?revision=%d in the file yourself", id, revision)
	}
	return s.Desired.Pipeline(r.Context(), id)
}

// revisionOf returns the declaration of a pipeline in a revision.
func revisionOf(revisions []spec.Revision, id string, number int64) (*spec.Pipeline, error) {
	i := slices.IndexFunc(revisions, func(v spec.Revision) bool { return v.Number == number })
	if i >= 0 && revisions[i].Spec == nil {
		return nil, rest.Errorf(rest.NotFound, rest.ReasonRevisionNotFound,
			"revision %d of pipeline %q declares nothing: its action is %q", number, id, revisions[i].Action).
			With("configPath", "revision").Suggest("choose one with a declaration from GET /v1/pipelines/%s/history", id)
	}
	if i < 0 {
		return nil, rest.Errorf(rest.NotFound, rest.ReasonRevisionNotFound,
			"revision %d of pipeline %q not found", number, id).
			With("configPath", "revision").Suggest("GET /v1/pipelines/%s/history lists the revisions", id)
	}
	return revisions[i].Spec, nil
}

// wordRunning stands for the running generation.
const wordRunning = "running"

// Diff answers with the difference between two generations of a pipeline: the requested ones, or the latest and its
// predecessor. It also answers for deleted pipelines.
func (s *historyHandlers) Diff(_ http.ResponseWriter, r *http.Request) (any, error) {
	id, query := r.PathValue("id"), r.URL.Query()
	revisions, err := s.Desired.History(r.Context(), id)
	if err != nil {
		return nil, err
	}
	revisions = slices.DeleteFunc(slices.Clone(revisions), func(v spec.Revision) bool { return v.Spec == nil })
	if len(revisions) == 0 {
		if _, err := s.Desired.Pipeline(r.Context(), id); err != nil {
			return nil, err
		}
	}
	to, err := s.versionAt(id, "to", query.Get("to"), revisions)
	if err != nil {
		return nil, err
	}
	from := before(to, revisions)
	if word := query.Get("from"); word != "" {
		if from, err = s.versionAt(id, "from", word, revisions); err != nil {
			return nil, err
		}
	}
	return compared(s.view(r), id, from, to), nil
}

// versionAt returns the latest revision of the generation in word, or the latest revision without a word.
func (s *historyHandlers) versionAt(id, field, word string, revisions []spec.Revision) (*spec.Revision, error) {
	generation, err := strconv.ParseInt(word, 10, 64)
	var good *spec.LastGood
	switch {
	case word == wordRunning:
		state, _ := s.Loop.State(id)
		if generation, good = state.RunningGeneration, state.LastGood; generation == 0 {
			return nil, notRunning(id)
		}
	case word == "" && len(revisions) > 0:
		return &revisions[len(revisions)-1], nil
	case word != "" && err != nil:
		return nil, fieldError(spec.CodeInvalid, field, field+" must be the number of a generation or "+wordRunning+
			", not "+strconv.Quote(word))
	}
	for _, v := range slices.Backward(revisions) {
		if v.Generation == generation {
			return &v, nil
		}
	}
	if good != nil && good.Generation == generation { // it has run since before the kept history
		return &spec.Revision{Generation: generation, Spec: &good.Pipeline}, nil
	}
	return nil, rest.Errorf(rest.NotFound, rest.ReasonRevisionNotFound, "generation %d of pipeline %q not found",
		generation, id).
		With("configPath", field).Suggest("GET /v1/pipelines/%s/history lists the generations", id)
}

// before returns the last revision before to that differs from it, nil if there is none.
func before(to *spec.Revision, revisions []spec.Revision) *spec.Revision {
	for _, v := range slices.Backward(revisions) {
		if v.Number < to.Number && len(spec.Diff(v.Spec, to.Spec)) > 0 {
			return &v
		}
	}
	return nil
}

// compared returns the difference with the values that the client may see.
func compared(view *view, id string, from, to *spec.Revision) rest.Diff {
	d := rest.Diff{ID: id, To: versionOf(to), Changes: []rest.ValueChanged{}}
	var old, shownOld *spec.Pipeline
	if from != nil {
		v, shown := versionOf(from), view.Pipeline(from.Spec)
		d.From, old, shownOld = &v, from.Spec, &shown
	}
	shownNew := view.Pipeline(to.Spec)
	for _, change := range spec.Diff(old, to.Spec) {
		d.Changes = append(d.Changes, rest.ValueChanged{Change: change, Old: valueAt(shownOld, change.Path),
			New: valueAt(&shownNew, change.Path)})
	}
	return d
}

func valueAt(p *spec.Pipeline, path string) *string {
	if text, ok := spec.Value(p, path); ok {
		return &text
	}
	return nil
}

func versionOf(v *spec.Revision) rest.Version {
	return rest.Version{Generation: v.Generation, Revision: v.Number, At: v.At, Origin: v.Origin}
}
