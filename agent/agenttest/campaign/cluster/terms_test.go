package cluster_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/spec"
)

// TestTerms cuts a member off from NATS: a strict pipeline stops, a relaxed one and a local one continue, and a
// pipeline for other members runs nowhere.
func TestTerms(t *testing.T) {
	load.Parallel(t, load.Server+load.Agent)
	proxy := network.NewProxy(t, server.StartNATS(t, 1)[0].Addr)
	f := joined(t, []string{"nats://" + proxy.Addr()}, 0, 5*time.Second)
	const strict, relaxed, local, inRome = 0, 1, 2, 3
	f.written = make([]int, 4)
	f.terms = map[int]string{
		relaxed: "cluster: relaxed",
		local:   "cluster: local",
		inRome:  "cluster: local\n    placement: {labels: {site: rome}}",
	}
	for i := range f.written {
		f.declare(i)
	}
	m := f.members[0]
	f.feed(10)
	f.awaitOf(strict, relaxed, local)
	proxy.Hold(true)
	m.awaitLog("reason=SelfStopped")
	wait.For(t, "the strict pipeline to stop", func() bool {
		return decoded[rest.PipelineStatus](m, "GET", "/v1/pipelines/p0/status").State.Phase == "stopped"
	})
	before, _ := f.arrived(strict)
	f.feed(10)
	f.awaitOf(relaxed, local)
	if n, _ := f.arrived(strict); n != before {
		t.Errorf("the strict pipeline wrote %d lines without a session", n-before)
	}
	if status, answer := m.request("GET", "/readyz", ""); status != http.StatusServiceUnavailable ||
		!strings.Contains(answer, "no session in the cluster") {
		t.Errorf("a member without a session says of its readiness: %d %s", status, answer)
	}
	if events := m.call("GET", "/v1/events?limit=1000"); !strings.Contains(events, `"reason":"Disconnected"`) {
		t.Error("no event says that the relaxed pipeline goes on")
	}
	proxy.Heal()
	m.awaitLog("reason=Reconnected")
	f.awaitOf(strict, relaxed, local)
	m.call("GET", "/readyz")
	m.awaitCluster("which terms the pipelines have", func(c *spec.Cluster) bool {
		pipeline := func(id string) *spec.ClusterPipeline {
			at := slices.IndexFunc(c.Pipelines, func(p spec.ClusterPipeline) bool { return p.ID == id })
			if at < 0 {
				return nil
			}
			return &c.Pipelines[at]
		}
		p0, p1, p2 := pipeline("p0"), pipeline("p1"), pipeline("p2")
		return p0 != nil && p0.Terms.Mode == spec.ClusterStrict && p1 != nil && p1.Terms.Mode == spec.ClusterRelaxed &&
			p2 != nil && p2.Reason == "Local" && p2.Member == m.name && pipeline("p3") == nil
	})
	s := decoded[rest.PipelineStatus](m, "GET", "/v1/pipelines/p3/status")
	if n, _ := f.arrived(inRome); n != 0 || s.Placement == nil || s.Placement.Member != "" || s.Terms.Eligible ||
		len(s.Terms.OnHost) != 2 {
		t.Errorf("the pipeline for rome wrote %d lines, its status is %+v", n, s)
	}
	f.terms[inRome] = "cluster: local"
	f.declare(inRome)
	f.written[inRome] = 0 // declaring it empties its input
	f.feed(10)
	f.await()
}

// TestEndsRelaxed ends an agent that can no longer reach NATS while a relaxed pipeline runs.
func TestEndsRelaxed(t *testing.T) {
	load.Parallel(t, load.Server+load.Agent)
	proxy := network.NewProxy(t, server.StartNATS(t, 1)[0].Addr)
	f := joined(t, []string{"nats://" + proxy.Addr()}, 0, 5*time.Second)
	f.written, f.terms = make([]int, 1), map[int]string{0: "cluster: relaxed"}
	f.declare(0)
	f.feed(10)
	f.await()
	proxy.Hold(true)
	f.members[0].awaitLog("reason=Disconnected")
	f.feed(10)
	f.await()
	f.members[0].mustEnd()
}
