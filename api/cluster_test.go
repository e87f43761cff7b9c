package api_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// member is an agent in a cluster that drains at once, or never.
type member struct {
	state spec.MembershipState
	stuck bool
}

func (m *member) Cluster(context.Context) (spec.Cluster, error) {
	since := time.Unix(1000, 0).UTC()
	return spec.Cluster{Name: "edge", Member: "m1", State: m.state,
		Members: []spec.ClusterMember{{Name: "m1", State: "live", StartedAt: since}},
		Pipelines: []spec.ClusterPipeline{
			{ID: "orders", Assignment: spec.Assignment{Member: "m1", Since: &since}}}}, nil
}

func (m *member) Drain(ctx context.Context) error {
	if m.stuck {
		m.state = spec.MembershipDraining
		<-ctx.Done()
		return ctx.Err()
	}
	m.state = spec.MembershipDrained
	return nil
}

func (m *member) Resume(context.Context) error {
	m.state = spec.MembershipJoined
	return nil
}

func TestCluster(t *testing.T) {
	s := newServer(newWorld(t))
	m := &member{state: spec.MembershipJoined}
	s.Cluster = m
	h := s.Handler()
	for _, step := range []struct {
		method, path string
		stuck        bool
		want         int
		state        string
	}{
		{"GET", "/v1/cluster", false, 200, `"state":"joined"`},
		{"POST", "/v1/cluster/drain", false, 200, `"state":"drained"`},
		{"POST", "/v1/cluster/resume", false, 200, `"state":"joined"`},
		{"POST", "/v1/cluster/drain?wait=0", true, 200, `"state":"draining"`},
		{"POST", "/v1/cluster/drain?wait=1ms", true, 504, rest.ReasonTimeout},
	} {
		m.stuck = step.stuck
		if got := do(h, step.method, step.path, ""); got.status != step.want ||
			!strings.Contains(string(got.body), step.state) {
			t.Errorf("%s %s: %d %s, want %d and %s", step.method, step.path, got.status, got.body, step.want,
				step.state)
		}
	}
}

func TestAlone(t *testing.T) {
	h := newServer(newWorld(t)).Handler()
	if got := do(h, "GET", "/v1/cluster", ""); got.status != http.StatusOK ||
		!strings.Contains(string(got.body), `"state":"alone"`) {
		t.Errorf("the cluster of an agent that is alone: %d %s", got.status, got.body)
	}
	for _, path := range []string{"/v1/cluster/drain", "/v1/cluster/resume"} {
		if got := do(h, "POST", path, ""); got.status != http.StatusBadRequest ||
			!strings.Contains(string(got.body), rest.ReasonAlone) {
			t.Errorf("%s: %d %s, want it refused", path, got.status, got.body)
		}
	}
}

// A user cannot stop a pipeline that another member has to run, and only that member can restart it.
func TestElsewhere(t *testing.T) {
	w := newWorld(t)
	since := time.Unix(1000, 0).UTC()
	w.placed = map[string]spec.Assignment{"orders": {Member: "m2", Since: &since}}
	w.frozen = true
	w.declare(spec.Declare{Pipeline: spec.Pipeline{ID: "orders", Status: spec.StatusRunning}})
	w.declare(
		spec.Declare{Pipeline: spec.Pipeline{ID: "hot", Status: spec.StatusRunning, Terms: spec.Terms{Instances: "2"}}})
	w.states["orders"] = spec.State{PipelineID: "orders", Phase: spec.PhaseStopped}
	h := newServer(w).Handler()
	for path, want := range map[string]string{
		"/v1/pipelines/hot/status": `"instances":{"declared":"2","running":[{"instance":1,"member":"m2",` +
			`"since":"1970-01-01T00:16:40Z"}],"message":"the rest waits"}`,
		"/v1/pipelines/orders/status": `"placement":{"member":"m2","since":"1970-01-01T00:16:40Z"}`,
		"/v1/pipelines/orders":        string(rest.StoppedBySystem),
	} {
		if got := do(h, "GET", path, ""); !strings.Contains(string(got.body), want) {
			t.Errorf("%s: %s, want %s", path, got.body, want)
		}
	}
	for _, action := range []string{"start", "restart"} {
		if got := do(h, "POST", "/v1/pipelines/orders/"+action, ""); !strings.Contains(string(got.body),
			rest.ReasonPipelineElsewhere) {
			t.Errorf("%s: %s, want it refused because it runs elsewhere", action, got.body)
		}
	}
}
