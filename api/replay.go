package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// Replays replays dead letters, with at most one replay of each pipeline at a time.
type Replays interface {
	// Start begins a replay. It returns spec.ErrConflict if a replay of the pipeline is in progress.
	Start(ctx context.Context, pipeline string, request spec.ReplayRequest) (spec.Replay, error)
	// Status returns the current or last replay, on whichever member of a cluster; ok is false when there was none.
	Status(ctx context.Context, pipeline string) (status spec.Replay, ok bool)
	// Cancel ends a replay once its outstanding records are settled, on whichever member of the cluster it runs.
	Cancel(ctx context.Context, pipeline string) (status spec.Replay, ok bool, err error)
}

// Replay begins a replay and answers at once.
func (s *deadLetterHandlers) Replay(w http.ResponseWriter, r *http.Request) (any, error) {
	if s.Replays == nil {
		return nil, notFound()
	}
	var body spec.ReplayRequest
	if err := readJSON(w, r, &body); err != nil {
		return nil, err
	}
	var f spec.DeadLetterFilter
	if body.Filter != nil {
		f = *body.Filter
	}
	if err := errors.Join(checkFilter(f), checkSelection(body.IDs, f, body.All),
		checkFrom(body.From)); err != nil {
		return nil, err
	}
	id := r.PathValue("id")
	if _, err := s.Desired.Pipeline(r.Context(), id); err != nil {
		return nil, err
	}
	if err := s.here(r.Context(), id); err != nil {
		return nil, err
	}
	status, err := s.Replays.Start(r.Context(), id, body)
	if errors.Is(err, spec.ErrConflict) {
		return nil, rest.Errorf(rest.Aborted, rest.ReasonPipelineRunning,
			"dead letters of pipeline %q are being replayed already", id).
			With("pipelineId", id).Suggest("wait until it has ended, or DELETE /v1/pipelines/%s/dead-letter-replay",
			id)
	}
	return answer(status, err)
}

// checkFrom returns an error unless records can enter there.
func checkFrom(from spec.ReplayFrom) error {
	if from == "" || slices.Contains(from.Enum(), string(from)) {
		return nil
	}
	return fieldError(spec.CodeInvalid, "from", fmt.Sprintf("from is %.200q: want refused or first", from))
}

// ReplayStatus answers with the progress of a replay.
func (s *deadLetterHandlers) ReplayStatus(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.replay(r, func(id string) (spec.Replay, bool, error) {
		status, ok := s.Replays.Status(r.Context(), id)
		return status, ok, nil
	})
}

// CancelReplay ends a replay.
func (s *deadLetterHandlers) CancelReplay(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.replay(r, func(id string) (spec.Replay, bool, error) { return s.Replays.Cancel(r.Context(), id) })
}

func (s *deadLetterHandlers) replay(r *http.Request, lookup func(id string) (spec.Replay, bool, error)) (any, error) {
	if s.Replays == nil {
		return nil, notFound()
	}
	status, ok, err := lookup(r.PathValue("id"))
	if err == nil && !ok {
		return nil, rest.Errorf(rest.NotFound, rest.ReasonNotFound,
			"no dead letters of pipeline %.200q were replayed since the agent started", r.PathValue("id"))
	}
	return answer(status, err)
}
