package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/conduit-agent/conduit/api/rest"
)

// getPlan answers with what the files as they are would change.
func (s *Server) getPlan(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.plan(r.Context(), rest.PlanRequest{})
}

// planFiles answers with what the files of the request would change. It takes the admin
// token, because what it says of references tells what the agent can read.
func (s *Server) planFiles(w http.ResponseWriter, r *http.Request) (any, error) {
	var body rest.PlanRequest
	if err := read(w, r, &body); err != nil {
		return nil, err
	}
	return s.plan(r.Context(), body)
}

func (s *Server) plan(ctx context.Context, request rest.PlanRequest) (any, error) {
	if s.Plan == nil {
		return nil, notFound()
	}
	plan, err := s.Plan(ctx, request)
	var refused *rest.Error
	switch {
	case err == nil:
		return plan, nil
	case errors.As(err, &refused), ctx.Err() != nil:
		return nil, err
	}
	return nil, rest.Errorf(rest.Unavailable, rest.ReasonUnavailable, "%v", err)
}
