package api

import (
	"context"
	"net/http"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// fileHandlers performs the operations on pipeline files.
type fileHandlers struct {
	shared
	Directory func() spec.Directory // see Server
	// Reloaded reads the files again and returns when desired state is in line with them, or the reason why it is not.
	// With prune, the absence of all files counts. nil: reloading is not available.
	Reloaded func(ctx context.Context, prune bool) error
	// Planned returns the changes that the files would make, as if the files of the request were saved among them. It
	// changes nothing. nil: planning is not available.
	Planned func(ctx context.Context, request spec.PlanRequest) (*spec.Plan, error)
}

// Reload reads the files now, and answers with their states afterwards.
func (s *fileHandlers) Reload(w http.ResponseWriter, r *http.Request) (any, error) {
	var body rest.Reload
	if err := read(w, r, &body, s.Reloaded != nil); err != nil {
		return nil, err
	}
	if err := s.Reloaded(r.Context(), body.Prune); err != nil {
		if r.Context().Err() != nil {
			return nil, r.Context().Err()
		}
		return nil, rest.Errorf(rest.Unavailable, rest.ReasonUnavailable, "%v", err)
	}
	return s.List(w, r)
}

// List answers with the states of the pipeline files.
func (s *fileHandlers) List(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.all(r.Context())
}

func (s *fileHandlers) all(ctx context.Context) ([]spec.FileState, error) {
	files, err := s.Desired.FileStates(ctx)
	if files == nil {
		files = []spec.FileState{}
	}
	directory := s.Directory().State
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

// Plan answers with the changes that the current files would make.
func (s *fileHandlers) Plan(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.plan(r.Context(), spec.PlanRequest{})
}

// PlanChanges answers with the changes that the files of the request would make. It requires the admin token, because
// problems with references reveal the read access of the agent.
func (s *fileHandlers) PlanChanges(w http.ResponseWriter, r *http.Request) (any, error) {
	var body spec.PlanRequest
	if err := readJSON(w, r, &body); err != nil {
		return nil, err
	}
	return s.plan(r.Context(), body)
}

func (s *fileHandlers) plan(ctx context.Context, request spec.PlanRequest) (any, error) {
	if s.Planned == nil {
		return nil, notFound()
	}
	plan, err := s.Planned(ctx, request)
	switch {
	case err == nil:
		return plan, nil
	case known(err) != nil, ctx.Err() != nil:
		return nil, err
	}
	return nil, rest.Errorf(rest.Unavailable, rest.ReasonUnavailable, "%v", err)
}
