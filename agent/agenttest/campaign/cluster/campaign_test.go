//go:build linux && (amd64 || arm64)

package cluster_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/clock"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/server"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/spec"
)

// campaign is a cluster on three NATS servers whose members, links, servers and clocks fail while lines are copied.
type campaign struct {
	*fleet
	proxies [][]*network.Proxy // by member, one to each server
	clocks  []*clock.Clock
	wire    *wire
	sinks   []*sink
	fed     atomic.Int64 // lines of every pipeline
	report  *campaignReport
}

// TestFailovers breaks members, their links, NATS servers and clocks repeatedly while lines are copied. Every line
// arrives, in order but for repeats. The new owner of a pipeline resumes from the last position that the servers
// accepted from the former owner, and they accept no later position from the former owner. The answers to the writes of
// claims are linearizable. The campaign ends before the time limit of the test.
func TestFailovers(t *testing.T) {
	load.Parallel(t, *clusters*(3*load.Server+*members*load.Agent))
	var left atomic.Int64
	left.Store(int64(*failovers))
	report := &campaignReport{took: map[string][]time.Duration{}, repeated: map[string][]int{}}
	t.Run("clusters", func(t *testing.T) {
		for i := range *clusters {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				if *clusters > 1 { // a single one uses the whole machine
					t.Parallel()
				}
				c := newCampaign(t, *members, report)
				c.run(i, &left)
			})
		}
	})
	report.log(t)
}

func newCampaign(t *testing.T, members int, report *campaignReport) *campaign {
	t.Helper()
	servers := server.StartNATS(t, 3)
	c := &campaign{wire: newWire(), report: report}
	urls := make([]string, members)
	for i := range members {
		var links []string
		c.proxies = append(c.proxies, nil)
		for _, s := range servers {
			p := network.NewNATSProxy(t, s.Addr)
			p.Observe(c.wire.observer(i))
			c.proxies[i], links = append(c.proxies[i], p), append(links, "nats://"+p.Addr())
		}
		rand.Shuffle(len(links), func(a, b int) { links[a], links[b] = links[b], links[a] })
		urls[i] = strings.Join(links, ",")
	}
	c.fleet = gathered(t, urls, members, *session)
	c.servers, c.behind = servers, ` {{ index .Metadata "conduit.cluster.epoch" }}`
	for i, m := range c.members {
		c.clocks = append(c.clocks, clock.New(t))
		m.join = c.clocks[i].Join
		c.sinks = append(c.sinks, &sink{t: t, name: fmt.Sprint("p", i), path: c.out(i)})
	}
	c.start()
	return c
}

// disturbance is a fault, or a requested move.
type disturbance struct {
	name string
	// moves: other members take over the pipelines of the member. Otherwise they continue on it.
	moves   bool
	do      func(c *campaign, at int)
	recover func(c *campaign, at int)
}

// disturbances are made in turn.
var disturbances = []disturbance{
	{"kill -9", true, killMember, startMember},
	{"stalled links", true, func(c *campaign, at int) {
		c.links(at, func(p *network.Proxy) { p.Hold(true) })
	}, healLinks},
	{"drain", true, drainMember, func(c *campaign, at int) { c.members[at].call("POST", "/v1/cluster/resume") }},
	{"SIGSTOP", true, func(c *campaign, at int) {
		c.members[at].signal(syscall.SIGSTOP)
	}, func(c *campaign, at int) { c.members[at].signal(syscall.SIGCONT) }},
	{"clocks and kill -9", true, func(c *campaign, at int) {
		for _, one := range c.clocks {
			one.SetAhead(rand.N(2*time.Hour) - time.Hour)
		}
		killMember(c, at)
	}, startMember},
	{"cut links", true,
		func(c *campaign, at int) { c.links(at, func(p *network.Proxy) { p.Refuse(true); p.Cut() }) }, healLinks},
	{"links that double and reorder, and kill -9", true, func(c *campaign, at int) {
		c.links(-1, (*network.Proxy).Reorder)
		killMember(c, at)
	}, func(c *campaign, at int) { healLinks(c, -1); startMember(c, at) }},
	{"kill -9 of a server and of a member", true, func(c *campaign, at int) {
		killServer(c, at)
		killMember(c, at)
	}, func(c *campaign, at int) { startServer(c, at); startMember(c, at) }},
	{"slow links and kill -9", true, func(c *campaign, at int) {
		c.links(-1, func(p *network.Proxy) { p.Delay(rand.N(100 * time.Millisecond)) })
		killMember(c, at)
	}, func(c *campaign, at int) { healLinks(c, -1); startMember(c, at) }},
	{"kill -9 of a server", false, killServer, startServer},
}

func killMember(c *campaign, at int)  { c.members[at].kill() }
func startMember(c *campaign, at int) { c.members[at].start() }
func drainMember(c *campaign, at int) { c.members[at].call("POST", "/v1/cluster/drain") }
func killServer(c *campaign, at int)  { c.servers[at%len(c.servers)].Kill() }
func healLinks(c *campaign, at int)   { c.links(at, (*network.Proxy).Heal) }

func startServer(c *campaign, at int) {
	if err := c.servers[at%len(c.servers)].Start(context.Background()); err != nil {
		c.t.Fatal(err)
	}
}

// links applies a fault to the links of a member; -1: of all members.
func (c *campaign) links(at int, do func(*network.Proxy)) {
	for i, all := range c.proxies {
		if at == -1 || at == i {
			for _, p := range all {
				do(p)
			}
		}
	}
}

// run disturbs the cluster until all disturbances are done or little time is left.
func (c *campaign) run(first int, left *atomic.Int64) {
	c.t.Helper()
	stop, feeding := make(chan struct{}), sync.WaitGroup{}
	feeding.Go(func() { c.keepFeeding(stop) })
	stopped := sync.OnceFunc(func() { close(stop); feeding.Wait() })
	defer stopped()
	for n := 3 * first; left.Add(-1) >= 0; n++ {
		if end, limited := c.t.Deadline(); limited && time.Until(end) < 2*wait.Limit {
			c.t.Logf("cluster %d: ends early, for the time limit of the test is near", first)
			break
		}
		c.round(first, disturbances[n%len(disturbances)])
	}
	stopped()
	c.finish(first)
}

// keepFeeding adds lines to the input of each pipeline until it is stopped.
func (c *campaign) keepFeeding(stop <-chan struct{}) {
	files := make([]*os.File, len(c.written))
	for i := range files {
		var err error
		if files[i], err = os.OpenFile(c.in(i), os.O_APPEND|os.O_WRONLY, 0); err != nil {
			c.t.Error(err)
			return
		}
		defer func() { _ = files[i].Close() }()
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for next := int64(1); ; next += 5 {
		var text []byte
		for n := next; n < next+5; n++ {
			text = append(strconv.AppendInt(text, n, 10), '\n')
		}
		for _, f := range files {
			if _, err := f.Write(text); err != nil {
				c.t.Error(err)
				return
			}
		}
		c.fed.Store(next + 4)
		select {
		case <-stop:
			return
		case <-tick.C:
		}
	}
}

// until waits for a condition with fewer checks than wait.For: several clusters wait at the same time.
func (c *campaign) until(what string, done func() bool) {
	c.t.Helper()
	wait.For(c.t, what, func() bool {
		for _, s := range c.sinks {
			s.follow()
		}
		if done() {
			return true
		}
		time.Sleep(30 * time.Millisecond)
		return false
	}, func() string {
		var all []string
		for _, s := range c.sinks {
			all = append(all, fmt.Sprintf("%s wrote up to line %d under the epoch %d", s.name, s.last, s.epoch))
		}
		return fmt.Sprintf("%d lines were fed; %s", c.fed.Load(), strings.Join(all, ", "))
	})
}

// round disturbs the member with the most pipelines, and waits until all pipelines continue and the cluster has
// recovered.
func (c *campaign) round(cluster int, d disturbance) {
	c.t.Helper()
	at, most := c.busiest()
	had := map[string]uint64{} // epochs of the member's pipelines; one may just have got another owner
	for _, p := range decoded[spec.Cluster](c.members[at], "GET", "/v1/cluster").Pipelines {
		if p.Member == c.members[at].name {
			had[p.ID] = p.Epoch
		}
	}
	begin, fed := time.Now(), c.fed.Load()
	d.do(c, at)
	asked := time.Since(begin)
	if d.moves {
		c.until("others go on with what the member had", func() bool {
			return !slices.ContainsFunc(c.sinks, func(s *sink) bool { return s.epoch <= had[s.name] })
		})
	}
	c.until("lines that came after it are written", func() bool {
		return !slices.ContainsFunc(c.sinks, func(s *sink) bool { return int64(s.last) <= fed })
	})
	took := time.Since(begin)
	d.recover(c, at)
	c.members[at].awaitCluster("it is a member again", func(now *spec.Cluster) bool {
		return now.State == spec.MembershipJoined
	})
	c.report.add(d, took, asked, len(had))
	c.t.Logf("cluster %d: %s at %s with %d pipelines: all go on after %v, after %d lines", cluster, d.name,
		c.members[at].name, most, took.Round(time.Millisecond), c.fed.Load())
}

// finish waits until every line is written, and checks the traffic that the proxies recorded.
func (c *campaign) finish(cluster int) {
	c.t.Helper()
	healLinks(c, -1)
	c.until("every line is written", func() bool {
		return !slices.ContainsFunc(c.sinks, func(s *sink) bool { return int64(s.last) < c.fed.Load() })
	})
	taken := c.wire.check(c.t)
	for _, s := range c.sinks {
		for _, b := range s.begun {
			got, known := taken[b.epoch]
			if want := lineAt(got.position) + 1; !known || b.first != want {
				c.t.Errorf("%s begins with line %d under the epoch %d, which the proxies saw: %v, and which goes on "+
					"from line %d", s.name, b.first, b.epoch, known, want)
			}
			if repeats := b.behind + 1 - b.first; known {
				if got.from == "" && got.after == b.by && repeats > 0 {
					c.t.Errorf("%s repeats %d lines under the epoch %d, of an owner that gave the pipeline away",
						s.name, repeats, b.epoch)
				}
				c.report.change(got, repeats)
			}
		}
	}
	history, operations := c.wire.history()
	ok, verdict := history.Linearizable(c.t)
	if !ok {
		c.t.Errorf("no order of the %d writes of claims explains their answers: %s", operations, verdict)
	}
	c.report.ended(c, fmt.Sprintf("cluster %d: %d owners one after the other, %s", cluster, len(taken), verdict))
}

// campaignReport summarizes the events in all clusters.
type campaignReport struct {
	mu                   sync.Mutex
	took                 map[string][]time.Duration // time until all pipelines continued, by disturbance
	repeated             map[string][]int           // repeated lines, by kind of handover
	faults, moved        int
	lines, repeats, late int
	clusters             []string
}

const drained = "drain, until it is answered"

func (r *campaignReport) add(d disturbance, took, asked time.Duration, pipelines int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.took[d.name] = append(r.took[d.name], took)
	switch {
	case d.name == "drain":
		r.took[drained] = append(r.took[drained], asked)
	case d.moves:
		r.took["all failovers"] = append(r.took["all failovers"], took)
		r.moved += pipelines
		fallthrough
	default:
		r.faults++
	}
}

func (r *campaignReport) change(h handover, repeats int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	how := "given"
	if h.from != "" {
		how = "taken over"
	}
	r.repeated[how] = append(r.repeated[how], repeats)
}

func (r *campaignReport) ended(c *campaign, verdict string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clusters = append(r.clusters, verdict)
	for _, s := range c.sinks {
		r.lines, r.repeats, r.late = r.lines+s.last, r.repeats+s.repeats, r.late+s.late
	}
}

// log logs the whole report.
func (r *campaignReport) log(t *testing.T) {
	t.Logf("%d faults, %d failovers of %d pipelines; %d lines, 0 lost, %d repeats; %d were written by a former owner "+
		"after the next one began", r.faults,
		len(r.took["all failovers"]), r.moved, r.lines, r.repeats, r.late)
	for _, what := range slices.Sorted(maps.Keys(r.took)) {
		t.Logf("%s: %s", what, spread(r.took[what]))
	}
	for _, what := range slices.Sorted(maps.Keys(r.repeated)) {
		t.Logf("lines repeated of a pipeline that was %s: %s", what, spread(r.repeated[what]))
	}
	for _, verdict := range r.clusters {
		t.Log(verdict)
	}
}

// spread formats the distribution of some values.
func spread[T cmp.Ordered](all []T) string {
	slices.Sort(all)
	at := func(percent int) T { return all[(percent*len(all)-1)/100] }
	return fmt.Sprintf("%d, median %v, 99 in 100 at most %v, the largest %v", len(all), at(50), at(99), at(100))
}
