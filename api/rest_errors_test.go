package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/api/rest"
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
