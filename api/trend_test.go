package api_test

import (
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

func TestTrend(t *testing.T) {
	w := newWorld(t)
	p := pipelineOf("orders", spec.StatusStopped)
	if err := w.ApplyIf(t.Context(), &spec.Changes{Declare: []spec.Declare{{Pipeline: p}}}, nil); err != nil {
		t.Fatal(err)
	}
	s, five := newServer(w), 5.0
	s.Trend = func(id, last string) *spec.Trend {
		return &spec.Trend{ID: id, Last: last, Records: []*float64{nil, &five}}
	}
	h := s.Handler()
	for _, c := range []struct {
		path   string
		status int
		want   string
	}{
		{"orders/trend", 200, `"last":"15m"`},
		{"orders/trend?last=24h", 200, `"last":"24h"`},
		{"orders/trend?last=1h", 200, `"records":[null,5]`},
		{"orders/trend?last=2h", 400, spec.CodeInvalid},
		{"nothing/trend", 404, rest.ReasonPipelineNotFound},
	} {
		if got := do(h, "GET", "/v1/pipelines/"+c.path, ""); got.status != c.status ||
			!strings.Contains(string(got.body), c.want) {
			t.Errorf("%s: %d %s, want %d %s", c.path, got.status, got.body, c.status, c.want)
		}
	}
	if got := do(newServer(w).Handler(), "GET", "/v1/pipelines/orders/trend", ""); got.status != 404 {
		t.Errorf("without measurements: %d %s", got.status, got.body)
	}
}
