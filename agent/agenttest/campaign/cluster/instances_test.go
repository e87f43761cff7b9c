package cluster_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/spec"
)

// hot is a pipeline with several instances, which read a topic as a group and write its messages to another topic.
type hot struct {
	*fleet
	kafka  *server.Kafka
	client *kgo.Client
	n      int // numbers produced

	mu   sync.Mutex
	seen map[int]int // guarded by mu: how often each number arrived
}

func newHot(t *testing.T, members int) *hot {
	t.Helper()
	k := server.StartKafka(t, server.KafkaOptions{Topics: "in:12,out:1", Config: "group.min.session.timeout.ms=1000"})
	nats := server.StartNATS(t, 1)[0]
	client, err := kgo.NewClient(kgo.SeedBrokers(k.Addr), kgo.ConsumeTopics("out"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	h := &hot{fleet: joined(t, slices.Repeat([]string{nats.URL()}, members), 0, 5*time.Second), kafka: k,
		client: client, seen: map[int]int{}}
	ctx := t.Context()
	go func() {
		for ctx.Err() == nil {
			fetches := client.PollFetches(ctx)
			h.mu.Lock()
			fetches.EachRecord(func(r *kgo.Record) {
				n, _ := strconv.Atoi(string(r.Value))
				h.seen[n]++
			})
			h.mu.Unlock()
		}
	}()
	return h
}

func (h *hot) declare(instances string) {
	h.t.Helper()
	yaml := fmt.Sprintf(`version: "2.2"
pipelines:
  - id: hot
    status: running
    instances: %s
    connectors:
      - {id: in, type: source, plugin: kafka, settings: {servers: %q, topics: in, groupID: g, readFromBeginning: true,
         sessionTimeout: 3s}}
      - id: out
        type: destination
        plugin: kafka
        settings: {servers: %q, topic: out, sdk.record.format: template,
          sdk.record.format.options: '{{ printf "%%s" .Payload.After }}'}
`, instances, h.kafka.Addr, h.kafka.Addr)
	if err := os.WriteFile(filepath.Join(h.dir, "pipelines", "hot.yaml"), []byte(yaml), 0o644); err != nil {
		h.t.Fatal(err)
	}
}

// feed produces further numbers, to all partitions.
func (h *hot) feed(numbers int) {
	h.t.Helper()
	for range numbers {
		h.n++
		r := &kgo.Record{Topic: "in", Key: []byte(fmt.Sprint(h.n)), Value: []byte(fmt.Sprint(h.n))}
		if err := h.client.ProduceSync(h.t.Context(), r).FirstErr(); err != nil {
			h.t.Fatal(err)
		}
	}
}

// awaitAll waits until every number has arrived.
func (h *hot) awaitAll(when string) {
	h.t.Helper()
	begun := time.Now()
	arrived := func() int { h.mu.Lock(); defer h.mu.Unlock(); return len(h.seen) }
	wait.For(h.t, "all numbers "+when, func() bool {
		return arrived() == h.n
	}, func() string { return fmt.Sprintf("%d of %d arrived", arrived(), h.n) })
	h.t.Logf("%s: all after %v", when, time.Since(begun).Round(time.Millisecond))
}

// owners returns the owner of each instance, as one member sees it.
func owners(c *spec.Cluster) map[int]string {
	all := map[int]string{}
	for _, p := range c.Pipelines {
		if p.ID == "hot" && p.Member != "" {
			all[p.Instance] = p.Member
		}
	}
	return all
}

// awaitInstances waits until n members own one instance each, and returns those members.
func (h *hot) awaitInstances(by *member, n int) (all map[int]string) {
	h.t.Helper()
	by.awaitCluster(fmt.Sprintf("%d members have an instance each", n), func(c *spec.Cluster) bool {
		all = owners(c)
		members := map[string]bool{}
		for _, m := range all {
			members[m] = true
		}
		return len(all) == n && len(members) == n
	})
	return all
}

// awaitGroup waits until n instances have partitions. A fake broker waits for a member that dies during the assignment
// of partitions.
func (h *hot) awaitGroup(n int) {
	h.t.Helper()
	admin, state := kadm.NewClient(h.client), ""
	wait.For(h.t, fmt.Sprintf("a group of %d", n), func() bool {
		groups, err := admin.DescribeGroups(h.t.Context(), "g")
		if err != nil {
			h.t.Fatal(err)
		}
		g := groups["g"]
		state = fmt.Sprintf("%s, %d members", g.State, len(g.Members))
		return g.State == "Stable" && len(g.Members) == n &&
			!slices.ContainsFunc(g.Members, func(m kadm.DescribedGroupMember) bool {
				assigned, ok := m.Assigned.AsConsumer()
				return !ok || len(assigned.Topics) == 0
			})
	}, func() string { return state })
}

// named returns the member with a name.
func (h *hot) named(name string) *member {
	return h.members[slices.IndexFunc(h.members, func(m *member) bool { return m.name == name })]
}

// TestInstances runs a pipeline on several members at the same time: each number arrives while a member is killed,
// comes back, and the number of instances changes.
func TestInstances(t *testing.T) {
	load.Parallel(t, 2*load.Server+3*load.Agent)
	h := newHot(t, 3)
	h.declare("2")
	h.feed(100)
	before := h.awaitInstances(h.members[0], 2)
	h.awaitAll("with two instances")
	h.awaitGroup(2)
	killed, kept := h.named(before[2]), h.named(before[1])
	killed.kill()
	h.feed(100)
	kept.awaitCluster("the instance of the member that was killed moved", func(c *spec.Cluster) bool {
		after := owners(c)
		return after[1] == before[1] && after[2] != "" && after[2] != before[1] && after[2] != before[2]
	})
	h.awaitAll("after a member was killed")
	h.awaitGroup(2)
	killed.start()
	h.declare("all")
	h.awaitInstances(kept, 3)
	h.awaitGroup(3)
	h.feed(100)
	h.awaitAll("with one on each member")
	s := decoded[rest.PipelineStatus](kept, "GET", "/v1/pipelines/hot/status")
	if s.Instances == nil || s.Instances.Declared != "all" || len(s.Instances.Running) != 3 ||
		s.Instances.Message != "" {
		t.Errorf("the status of the pipeline has the instances %+v", s.Instances)
	}
	h.stopAndStart(killed, kept)
	h.declare("1")
	h.awaitOne(kept)
	h.feed(50)
	h.awaitAll("with one")
	h.mu.Lock()
	defer h.mu.Unlock()
	repeats := 0
	for _, n := range h.seen {
		repeats += n - 1
	}
	t.Logf("%d numbers, %d repeats", h.n, repeats)
}

// stopAndStart stops the pipeline through one member and starts it through another: all instances follow.
func (h *hot) stopAndStart(stops, starts *member) {
	h.t.Helper()
	stops.send("POST", "/v1/pipelines/hot/stop?wait=20s", "{}")
	h.awaitInstances(starts, 0)
	starts.send("POST", "/v1/pipelines/hot/start", "{}")
	h.awaitInstances(stops, 3)
	h.feed(50)
	h.awaitAll("after it was stopped and started")
}

// awaitOne waits until the first instance is the only one.
func (h *hot) awaitOne(by *member) {
	h.t.Helper()
	by.awaitCluster("one member has the pipeline", func(c *spec.Cluster) bool {
		all := owners(c)
		return len(all) == 1 && all[0] != ""
	})
}

// TestWaitingInstances declares more instances than there are members, and instances that cannot share their input.
func TestWaitingInstances(t *testing.T) {
	load.Parallel(t, 2*load.Server+2*load.Agent)
	h := newHot(t, 2)
	h.declare("3")
	h.feed(20)
	h.awaitInstances(h.members[0], 2)
	h.awaitAll("with two of three instances")
	h.members[0].awaitCluster("the third instance waits", func(c *spec.Cluster) bool {
		return slices.ContainsFunc(c.Pipelines, func(p spec.ClusterPipeline) bool {
			return p.ID == "hot" && p.Instance == 3 && p.Member == "" && p.Reason == "Waiting"
		})
	})
	s := decoded[rest.PipelineStatus](h.members[1], "GET", "/v1/pipelines/hot/status")
	if s.Instances == nil || len(s.Instances.Running) != 2 ||
		!strings.Contains(s.Instances.Message, "the other instances wait") {
		t.Errorf("the status of the pipeline has the instances %+v", s.Instances)
	}
	h.members[1].call("POST", "/v1/cluster/drain")
	h.awaitInstances(h.members[0], 1)
	h.feed(20)
	h.awaitAll("with one of three instances")
}
