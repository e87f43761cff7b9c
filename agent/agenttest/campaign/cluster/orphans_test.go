package cluster_test

import (
	"slices"
	"testing"

	"github.com/conduit-agent/conduit/spec"
)

// TestStopAfterOwnerDied stops a pipeline whose owner was killed before it could release it: the request is answered
// once the session of the owner has expired, and no member is shown as the owner.
func TestStopAfterOwnerDied(t *testing.T) {
	t.Parallel()
	eachStore(t, 2, testStopAfterOwnerDied)
}

func testStopAfterOwnerDied(t *testing.T, urls string) {
	f := joined(t, []string{urls, urls}, 1, ttl)
	f.feed(10)
	f.await()
	name := f.owner("p0")
	at := slices.IndexFunc(f.members, func(m *member) bool { return m.name == name })
	dead, other := f.members[at], f.members[1-at]
	dead.kill()
	other.call("POST", "/v1/pipelines/p0/stop?wait=10m")
	if c := decoded[spec.Cluster](other, "GET", "/v1/cluster"); c.Pipelines[0].Member != "" {
		t.Errorf("the member that was killed owns the pipeline that was stopped: %+v", c.Pipelines[0])
	}
	before, _ := f.arrived(0)
	f.feed(10)
	other.call("POST", "/v1/pipelines/p0/start")
	f.await()
	if before != 10 {
		t.Errorf("%d lines had arrived when the pipeline was stopped", before)
	}
}
