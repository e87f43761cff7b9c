package api

import (
	"context"
	"net/http"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// dryRunHandlers runs records through the processors of pipelines, declared or not.
type dryRunHandlers struct {
	// Do runs the processors on the records of the request. The error is spec.ErrInvalid for a fault in the
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
	switch {
	case err == nil:
		return result, nil
	case known(err) != nil:
		return nil, err
	case r.Context().Err() != nil:
		return nil, r.Context().Err()
	}
	return nil, rest.Errorf(rest.FailedPrecondition, spec.CodeInvalid, "%v", err)
}
