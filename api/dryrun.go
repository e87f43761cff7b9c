package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// dryRunHandlers runs records through the processors of pipelines, declared or not.
type dryRunHandlers struct {
	// Do runs the processors on the records of the request. An error with a method Invalid describes a fault in the
	// request. nil: dry runs are not available.
	Do func(ctx context.Context, request spec.DryRunRequest) (*spec.DryRun, error)
}

// Run answers with the output of the processors for the records. It requires the admin token, because processors may
// read files and call services.
func (s *dryRunHandlers) Run(w http.ResponseWriter, r *http.Request) (any, error) {
	var body spec.DryRunRequest
	if err := read(w, r, &body, s.Do != nil); err != nil {
		return nil, err
	}
	result, err := s.Do(r.Context(), body)
	var invalid interface{ Invalid() bool }
	switch {
	case err == nil:
		return result, nil
	case errors.As(err, &invalid) && invalid.Invalid():
		return nil, rest.Errorf(rest.InvalidArgument, spec.CodeInvalid, "%v", err)
	case r.Context().Err() != nil:
		return nil, r.Context().Err()
	}
	return nil, rest.Errorf(rest.FailedPrecondition, spec.CodeInvalid, "%v", err)
}
