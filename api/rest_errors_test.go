package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// TestBodyIsBrief answers with an error whose texts come from a plugin.
func TestBodyIsBrief(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 8<<20)
	e := rest.Errorf(rest.FailedPrecondition, rest.ReasonConnectorRefused, "invalid connector config: %s", long)
	e.Violations = []rest.Violation{{Field: "url", Description: long}}
	body, err := json.Marshal(e.Body())
	if err != nil || len(body) > 9<<10 {
		t.Errorf("a body of %d bytes: %v", len(body), err)
	}
	if len(e.Violations[0].Description) != len(long) {
		t.Error("the error itself is cut")
	}
}

// TestErrorsOfTheAgent answers with errors of each kind that the agent returns.
func TestErrorsOfTheAgent(t *testing.T) {
	t.Parallel()
	for kind, want := range map[error]rest.Kind{
		spec.ErrInvalid: rest.InvalidArgument, spec.ErrPrecondition: rest.FailedPrecondition,
		spec.ErrBusy: rest.Aborted, spec.ErrConflict: rest.Aborted, spec.ErrNotFound: rest.NotFound,
		spec.ErrExists: rest.AlreadyExists, spec.ErrExhausted: rest.ResourceExhausted, spec.ErrUnavailable: rest.Unavailable,
	} {
		s := newServer(newWorld(t))
		s.Plan = func(context.Context, spec.PlanRequest) (*spec.Plan, error) {
			return nil, fmt.Errorf("wrapped: %w", &spec.Error{Kind: kind, Code: "a.code", Message: "it fails",
				Suggestion: "try", Field: "files[0].path", Pipeline: "p"})
		}
		got := do(s.Handler(), "POST", "/v1/plan", `{"files":[]}`)
		e := rest.ParseError(got.status, got.body)
		if e.Kind != want || e.Reason != "a.code" || e.Message != "it fails" || len(e.Metadata) != 3 ||
			e.Metadata["suggestion"] != "try" || e.Metadata["configPath"] != "files[0].path" ||
			e.Metadata["pipelineId"] != "p" {
			t.Errorf("%v: %+v", kind, e)
		}
	}
}
