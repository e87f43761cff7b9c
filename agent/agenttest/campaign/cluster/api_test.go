package cluster_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/spec"
)

var ready = regexp.MustCompile(`msg="API ready" .*address=(\S+)`)

// call sends a request to the API of a member.
func (m *member) call(method, path string) string {
	m.t.Helper()
	return m.send(method, path, "")
}

// send sends a request with a body to the API of a member.
func (m *member) send(method, path, body string) string {
	m.t.Helper()
	status, answer := m.request(method, path, body)
	if status != http.StatusOK {
		m.t.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
	return answer
}

// address returns the address of the API of a member.
func (m *member) address() string {
	m.t.Helper()
	m.awaitLog("API ready")
	all := ready.FindAllStringSubmatch(m.log.String()[m.before:], -1)
	return all[len(all)-1][1]
}

// request sends a request to the API of a member, with names and values of headers.
func (m *member) request(method, path, body string, headers ...string) (status int, answer string) {
	m.t.Helper()
	request, err := http.NewRequestWithContext(m.t.Context(), method, "http://"+m.address()+path,
		strings.NewReader(body))
	if err != nil {
		m.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		m.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		m.t.Fatalf("%s %s: %v", method, path, err)
	}
	return response.StatusCode, string(text)
}

// decoded returns the answer of a member as a T.
func decoded[T any](m *member, method, path string) (v T) {
	m.t.Helper()
	if err := json.Unmarshal([]byte(m.call(method, path)), &v); err != nil {
		m.t.Fatal(err)
	}
	return v
}

// awaitCluster waits until the view that a member has of the cluster satisfies ok.
func (m *member) awaitCluster(what string, ok func(*spec.Cluster) bool) {
	m.t.Helper()
	var c spec.Cluster
	wait.For(m.t, m.name+" knows that "+what, func() bool {
		c = decoded[spec.Cluster](m, "GET", "/v1/cluster")
		return ok(&c)
	}, func() string { return fmt.Sprintf("it knows %+v", c) })
}

// owned counts the pipelines that a member owns.
func owned(c *spec.Cluster, member string) (n int) {
	for i := range c.Pipelines {
		if c.Pipelines[i].Member == member {
			n++
		}
	}
	return n
}

// TestDrain drains a member over the API: another member runs all pipelines, both report so, and the drained member
// takes part again when it is resumed. Sessions live for longer than any wait of the test, so no step depends on the
// end of a session.
func TestDrain(t *testing.T) {
	load.Parallel(t, load.Server+2*load.Agent)
	const pipelines = 4
	f := newFleet(t, 1, 2, pipelines, wait.Limit+10*time.Second)
	f.feed(10)
	f.await()
	m0, m1 := f.members[0], f.members[1]
	if c := decoded[spec.Cluster](m0, "POST", "/v1/cluster/drain"); c.State != spec.MembershipDrained ||
		owned(&c, "m0") != 0 {
		t.Errorf("after a drain: %+v", c)
	}
	m1.awaitCluster("it has all", func(c *spec.Cluster) bool { return owned(c, "m1") == pipelines })
	f.feed(10)
	f.await()
	for _, s := range decoded[[]rest.PipelineStatus](m0, "GET", "/v1/status") {
		if s.Placement == nil || s.Placement.Member != "m1" || s.Placement.Since == nil || s.State.StoppedByUser {
			t.Errorf("the drained member says of %s: placement %+v, state %+v, want it on m1", s.ID, s.Placement,
				s.State)
		}
	}
	for _, s := range decoded[[]rest.PipelineStatus](m1, "GET", "/v1/status") {
		if s.Placement != nil {
			t.Errorf("the member that runs %s says that it is elsewhere: %+v", s.ID, s.Placement)
		}
	}
	if text := m1.call("GET", "/metrics"); !strings.Contains(text,
		fmt.Sprintf("conduit_cluster_pipelines %d\n", pipelines)) ||
		!strings.Contains(text, `conduit_cluster_notices_total{reason="Claimed"}`) ||
		strings.Count(text, "conduit_cluster_claim_since_timestamp_seconds{") != pipelines {
		t.Error("the metrics of the member that runs all do not say so")
	}
	if text := m1.call("GET", "/v1/events?limit=1000"); !strings.Contains(text, `"reason":"Claimed"`) {
		t.Errorf("the events do not say who claimed a pipeline: %s", text)
	}
	if c := decoded[spec.Cluster](m0, "POST", "/v1/cluster/resume"); c.State == spec.MembershipDrained {
		t.Errorf("after it was resumed: %+v", c)
	}
	m0.awaitCluster("it takes pipelines again", func(c *spec.Cluster) bool {
		return c.State == spec.MembershipJoined && owned(c, "m0") > 0
	})
	f.feed(10)
	f.await()
}

// owner returns the member that owns a pipeline, once all members have read its file and agree on the owner. A member
// can own a pipeline before the others have read its file.
func (f *fleet) owner(pipeline string) (owner string) {
	f.t.Helper()
	for _, m := range f.members {
		wait.For(f.t, m.name+" has read the file of "+pipeline, func() bool {
			return slices.ContainsFunc(decoded[[]rest.PipelineStatus](m, "GET", "/v1/status"),
				func(s rest.PipelineStatus) bool { return s.ID == pipeline })
		})
		m.awaitCluster(pipeline+" has an owner", func(c *spec.Cluster) bool {
			i := slices.IndexFunc(c.Pipelines, func(p spec.ClusterPipeline) bool {
				return p.ID == pipeline && p.Member != ""
			})
			if i >= 0 {
				owner = c.Pipelines[i].Member
			}
			return i >= 0
		})
	}
	return owner
}

// TestStopOnAnyMember stops and starts a pipeline through a member that does not run it.
func TestStopOnAnyMember(t *testing.T) {
	load.Parallel(t, load.Server+2*load.Agent)
	f := newFleet(t, 1, 2, 2, ttl)
	f.feed(10)
	f.await()
	other := f.members[0]
	if f.owner("p0") == other.name {
		other = f.members[1]
	}
	status := func(m *member) rest.PipelineStatus {
		return decoded[rest.PipelineStatus](m, "GET", "/v1/pipelines/p0/status")
	}
	other.call("POST", "/v1/pipelines/p0/stop")
	for _, m := range f.members {
		m.awaitCluster("p0 has no owner", func(c *spec.Cluster) bool {
			return c.Pipelines[0].ID == "p0" && c.Pipelines[0].Member == ""
		})
		if s := status(m); s.Override != spec.StatusStopped || s.State.Phase != spec.PhaseStopped {
			t.Errorf("%s says of a pipeline that was stopped on %s: %+v", m.name, other.name, s)
		}
	}
	before, _ := f.arrived(0)
	f.feed(10)
	wait.For(t, "the other pipeline to go on", func() bool { n, _ := f.arrived(1); return n >= f.written[1] })
	if n, _ := f.arrived(0); n != before {
		t.Errorf("the pipeline that was stopped wrote %d lines more", n-before)
	}
	other.call("POST", "/v1/pipelines/p0/start")
	f.await()
}

// TestResetOnAnyMember resets a source through a member that does not run its pipeline.
func TestResetOnAnyMember(t *testing.T) {
	load.Parallel(t, load.Server+2*load.Agent)
	f := newFleet(t, 1, 2, 1, ttl)
	f.feed(10)
	f.await()
	other := f.members[0]
	if f.owner("p0") == other.name {
		other = f.members[1]
	}
	const position = "/v1/connectors/p0:in/position"
	if status, answer := other.request("DELETE", position, ""); status != http.StatusBadRequest ||
		!strings.Contains(answer, rest.ReasonPipelineRunning) {
		t.Errorf("the position of a pipeline that runs is reset: %d %s", status, answer)
	}
	other.call("POST", "/v1/pipelines/p0/stop")
	other.awaitCluster("p0 has no owner", func(c *spec.Cluster) bool { return c.Pipelines[0].Member == "" })
	if p := decoded[rest.Position](other, "GET", position); len(p.Position) == 0 {
		t.Errorf("a member that never ran the pipeline does not know where it got: %+v", p)
	}
	if p := decoded[rest.Position](other, "DELETE", position); len(p.Position) != 0 {
		t.Errorf("after the position was reset it is %+v", p)
	}
	other.call("POST", "/v1/pipelines/p0/start")
	wait.For(t, "all lines to arrive again", func() bool { _, repeats := f.arrived(0); return repeats == 10 })
	if events := other.call("GET", "/v1/events?limit=1000"); !strings.Contains(events, `"reason":"PositionReset"`) {
		t.Error("no event says that the position was reset")
	}
}

// TestEndsWithoutNATS ends an agent that never reached NATS.
func TestEndsWithoutNATS(t *testing.T) {
	load.Parallel(t, load.Agent)
	m := newMember(t, "m", t.TempDir(), "nats://127.0.0.1:1", ttl)
	m.start()
	m.awaitLog("agent started")
	if c := decoded[spec.Cluster](m, "GET", "/v1/cluster"); c.State != spec.MembershipJoining || c.Message == "" {
		t.Errorf("a member that never reached NATS: %+v", c)
	}
	m.mustEnd()
}

// mustEnd stops the process gracefully.
func (m *member) mustEnd() {
	m.t.Helper()
	stuck := time.AfterFunc(wait.Limit, func() { m.signal(syscall.SIGKILL) })
	m.stop()
	if !stuck.Stop() {
		m.t.Error("the agent does not end")
	}
}
