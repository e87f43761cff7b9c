package protocol

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// TestOrphansAreFreedInTurn ends the owner of 500 pipelines that should not run. Two members free each claim once, a
// few at a time, and none before the owner's session is over.
func TestOrphansAreFreedInTurn(t *testing.T) {
	const pipelines = 500
	w, idle := orphaned(pipelines, "a", "b")
	w.until(timing.TTL - time.Second)
	if len(w.frees) > 0 {
		t.Fatalf("%d claims are freed while their owner may have a session", len(w.frees))
	}
	delete(w.entries, SessionKey("gone"))
	w.until(timing.TTL + 2*time.Second)
	if n := len(w.frees); n == 0 || n >= pipelines/2 {
		t.Errorf("%d of %d claims are freed within two seconds", n, pipelines)
	}
	w.until(timing.TTL + time.Minute)
	for id := range idle {
		if c, _ := decode[Claim](w.entries[ClaimKey(id)].Value); c.Owner != "" || c.Session != "" || w.frees[id] != 1 {
			t.Errorf("the claim %+v is written %d times", c, w.frees[id])
		}
	}
	for _, n := range w.nodes {
		if len(n.orphans.since) != 0 {
			t.Errorf("%s still looks at %d claims", n.Agent.Agent, len(n.orphans.since))
		}
	}
}

// TestOrphansAreLeftToOthersFirst ends the owner of a few pipelines. A member first frees those for which it ranks
// first, and later those that another member does not free.
func TestOrphansAreLeftToOthersFirst(t *testing.T) {
	w, idle := orphaned(8, "a")
	w.put(SessionKey("b"), encode(Session{Format: format, Agent: "b", Stamp: Stamp{"other", 1}}))
	w.nodes[0].Observe(0, w.entries[SessionKey("b")])
	delete(w.entries, SessionKey("gone"))
	w.until(timing.TTL + timing.Rank)
	first := 0
	for id := range idle {
		if ranked(id, nil, w.nodes[0].live(w.nodes[0].session.value))[0].Agent == "a" {
			first++
		}
	}
	if first == 0 || first == len(idle) || len(w.frees) != first {
		t.Errorf("%d claims are freed within a second, of %d for which the member ranks first", len(w.frees), first)
	}
	w.until(timing.TTL + 3*timing.Rank)
	if len(w.frees) != len(idle) {
		t.Errorf("%d of %d claims are freed", len(w.frees), len(idle))
	}
}

// orphaned returns a store with claims of pipelines that should not run, whose owner has a session, and members that
// know them.
func orphaned(pipelines int, members ...string) (w *table, idle map[string]bool) {
	w, idle = &table{entries: map[string]Entry{}, frees: map[string]int{}}, map[string]bool{}
	w.put(SessionKey("gone"), encode(Session{Format: format, Agent: "gone", Stamp: Stamp{"s", 1}}))
	for i := range pipelines {
		id := fmt.Sprint("p", i)
		idle[id] = true
		w.put(ClaimKey(id), encode(Claim{Format: format, Pipeline: id, Owner: "gone", Session: "s"}))
	}
	for _, name := range members {
		w.join(Session{Agent: name}, Declared{Idle: idle})
	}
	return w, idle
}

// table is a store without faults, with the nodes that use it.
type table struct {
	nodes    []*Node
	now      time.Duration
	revision uint64
	entries  map[string]Entry
	frees    map[string]int // number of claim writes, by pipeline
}

func (w *table) put(key string, value []byte) {
	w.revision++
	w.entries[key] = Entry{Key: key, Value: value, Revision: w.revision}
}

// join adds a node that has seen the whole store.
func (w *table) join(agent Session, d Declared) *Node {
	n := &Node{
		Agent: agent, Timing: timing, Rand: rand.New(rand.NewPCG(1, 1)), Empty: state(0),
		Clock: func() time.Time { return time.Time{} }, NewID: func() string { return "session of " + agent.Agent },
	}
	n.Init(w.now)
	for _, key := range sorted(w.entries) {
		n.Observe(w.now, w.entries[key])
	}
	n.Declare(w.now, d)
	n.Synced(w.now)
	w.nodes = append(w.nodes, n)
	return n
}

// until advances the time to end.
func (w *table) until(end time.Duration) {
	for ; w.now < end; w.now += 250 * time.Millisecond {
		for _, n := range w.nodes {
			n.Tick(w.now)
			for commands := n.Commands(); len(commands) > 0; commands = n.Commands() {
				for _, c := range commands {
					w.executeCommands(n, c)
				}
			}
		}
	}
}

func (w *table) executeCommands(n *Node, c Command) {
	switch c := c.(type) {
	case Read:
		e := w.entries[c.Key]
		e.Key = c.Key
		n.Got(w.now, e, true)
	case Write:
		if current := w.entries[c.Key].Revision; current != c.Revision {
			n.Wrote(w.now, c.ID, c.Key, Outcome{Conflict, current})
			return
		}
		if id := pipelineOfKey(c.Key); c.Key == ClaimKey(id) {
			w.frees[id]++
		}
		w.put(c.Key, c.Value)
		n.Wrote(w.now, c.ID, c.Key, Outcome{Applied, w.revision})
		for _, other := range w.nodes {
			other.Observe(w.now, w.entries[c.Key])
		}
	case Stop:
		n.Stopped(w.now, c.Pipeline, c.Epoch)
	}
}
