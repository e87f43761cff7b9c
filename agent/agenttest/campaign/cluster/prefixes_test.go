package cluster_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/spec"
)

// hotBucket is a pipeline with several instances, which divide the prefixes of a bucket and send its objects to a
// server.
type hotBucket struct {
	*hot
	store *server.S3
	url   string
}

var hotPrefixes = []string{"a/", "b/", "c/", "d/"}

func newHotBucket(t *testing.T, members int) *hotBucket {
	t.Helper()
	h := &hotBucket{store: server.StartS3(t, "secret-of-test", ""), hot: &hot{seen: map[int]int{}}}
	h.store.Must(t, "PUT", "/bkt", "", "")
	sink := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		n, err := strconv.Atoi(string(body))
		if err != nil {
			t.Errorf("received %q", body)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.seen[n]++
	}))
	t.Cleanup(sink.Close)
	h.url = sink.URL
	nats := server.StartNATS(t, 1)[0]
	h.fleet = joined(t, slices.Repeat([]string{nats.URL()}, members), 0, 5*time.Second)
	return h
}

func (h *hotBucket) declare(instances int) {
	h.t.Helper()
	yaml := fmt.Sprintf(`version: "2.2"
pipelines:
  - id: hot
    status: running
    instances: %d
    connectors:
      - id: in
        type: source
        plugin: s3
        settings: {aws.bucket: bkt, aws.region: us-east-1, aws.endpoint: "http://%s", aws.accessKeyId: conduit,
          aws.secretAccessKey: secret-of-test,
          prefixes: "a/,b/,c/,d/", pollingPeriod: 100ms, listing.delay: 10ms}
      - id: out
        type: destination
        plugin: http
        settings: {url: %q, sdk.record.format: template, sdk.record.format.options: '{{ printf "%%s" .Payload.After }}'}
`, instances, h.store.Addr, h.url)
	if err := os.WriteFile(filepath.Join(h.dir, "pipelines", "hot.yaml"), []byte(yaml), 0o644); err != nil {
		h.t.Fatal(err)
	}
}

// feed writes further numbers, below all prefixes.
func (h *hotBucket) feed(numbers int) {
	h.t.Helper()
	for range numbers {
		h.n++
		h.store.Must(h.t, "PUT", fmt.Sprintf("/bkt/%s%06d", hotPrefixes[h.n%len(hotPrefixes)], h.n), "",
			fmt.Sprint(h.n))
	}
}

// repeats returns how many objects arrived again.
func (h *hotBucket) repeats() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, times := range h.seen {
		n += times - 1
	}
	return n
}

// TestInstancesOfPrefixes runs a pipeline that reads a bucket on several members. Each object arrives, once while
// nothing changes, also when a member is killed and when the number of instances grows and shrinks.
func TestInstancesOfPrefixes(t *testing.T) {
	load.Parallel(t, 2*load.Server+3*load.Agent)
	h := newHotBucket(t, 3)
	h.feed(20)
	h.declare(2)
	before := h.awaitInstances(h.members[0], 2)
	h.awaitAll("with two instances")
	h.feed(20)
	h.awaitAll("with two instances, again")
	if n := h.repeats(); n > 0 {
		t.Errorf("%d objects were read by both instances", n)
	}
	killed, kept := h.named(before[2]), h.named(before[1])
	killed.kill()
	h.feed(20)
	kept.awaitCluster("the instance of the member that was killed moved", func(c *spec.Cluster) bool {
		after := owners(c)
		return after[1] == before[1] && after[2] != "" && after[2] != before[1] && after[2] != before[2]
	})
	h.awaitAll("after a member was killed")
	killed.start()
	for _, instances := range []int{3, 2} {
		h.declare(instances)
		h.awaitInstances(kept, instances)
		h.feed(20)
		h.awaitAll(fmt.Sprintf("with %d instances", instances))
	}
	h.declare(1)
	h.awaitOne(kept)
	h.feed(20)
	h.awaitAll("with one")
	t.Logf("%d objects, %d repeats", h.n, h.repeats())
}
