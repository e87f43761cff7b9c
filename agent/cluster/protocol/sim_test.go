package protocol

import (
	"container/heap"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"testing"
	"time"
)

// The histories that TestSimulation runs.
var (
	seeds = flag.Uint64("seeds", 10, "histories; of one alone all is logged")
	first = flag.Uint64("first", 0, "the seed of the first history")
)

// TestSimulation runs clusters with faults: pauses, kills, lost and late answers, partitions, outages, and clocks of
// the store that are set back. Each seed is one history.
func TestSimulation(t *testing.T) {
	if *seeds == 1 {
		simulate(t, *first, t.Logf, nil)
		return
	}
	h := newHistory(t)
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // a history leaves many small objects
	total := stats{}
	for seed := *first; seed < *first+*seeds; seed++ {
		total.add(simulate(t, seed, nil, h))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d seeds from %d: %+v", *seeds, *first, total)
	if total.Takeovers == 0 || total.Fenced == 0 || total.Late == 0 || total.Zombies == 0 || total.Deleted == 0 ||
		total.Expired == 0 || total.Kept == 0 {
		t.Errorf("the faults did not bring about what they should: %+v", total)
	}
}

// stats counts events.
type stats struct {
	Starts, Takeovers, Fenced, SelfStops, Late, Zombies, Records, Repeats, Cleaned, Deleted, Expired,
	Kept int
}

func (s *stats) add(o stats) {
	s.Starts += o.Starts
	s.Takeovers += o.Takeovers
	s.Fenced += o.Fenced
	s.SelfStops += o.SelfStops
	s.Late += o.Late
	s.Zombies += o.Zombies
	s.Records += o.Records
	s.Repeats += o.Repeats
	s.Cleaned += o.Cleaned
	s.Deleted += o.Deleted
	s.Expired += o.Expired
	s.Kept += o.Kept
}

const (
	faultTime = 120 * time.Second
	quietTime = 90 * time.Second
)

var timing = func() Timing {
	t := TimingOf(20 * time.Second)
	t.Retire, t.Tombstone = 15*time.Second, 30*time.Second
	return t
}()

// world holds everything outside of the nodes: the store, the network, the sources and sinks.
type world struct {
	t      *testing.T
	logf   func(string, ...any)
	rand   *rand.Rand
	now    time.Duration
	events events
	order  uint64
	agents []*agent
	stats  stats

	revision uint64
	keys     map[string]*stored
	down     bool // the store does not answer
	downAt   time.Duration
	upAt     time.Duration // end of the last outage that was long enough to end a session
	quiet    bool          // no more faults
	keeps    bool          // the clock of the store was set back

	acked   map[string]uint64 // by pipeline: highest number that the source may drop
	sink    map[string]uint64 // by pipeline: highest number that arrived
	running map[string]*agent // strict pipelines

	ackedBefore map[string]uint64 // half a minute before the end

	history *history // of the claims; nil if not needed
	seed    uint64

	again     bool // the file of the deleted pipeline is back
	runsAgain bool // the halted pipeline runs at the end
}

type stored struct {
	Entry
	claim   Claim         // decoded Value of a claim key
	expires time.Duration // 0 for never
	kept    time.Duration // extra lifetime because the clock of the store was set back
}

// agent is a process with a node.
type agent struct {
	w      *world
	name   string
	node   *Node
	life   int // number of kills
	paused bool
	held   []func() // events that arrived during a pause
	cut    bool     // it does not reach the store
	runs   map[string]*run
	file   bool // it has the file of the deleted pipeline
	halts  bool // it knows that the halted pipeline should not run

	cleaned uint64 // epoch in which it cleaned up after the deleted pipeline
}

// run moves numbers: it reads a number, writes it to the sink, and saves it.
type run struct {
	pipeline string
	epoch    uint64
	next     uint64 // next number to read
	arrived  uint64 // last number at the sink
	token    uint64
	saving   map[uint64]uint64 // number by token
	stopped  bool
}

type event struct {
	at    time.Duration
	order uint64
	f     func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any     { old := *e; x := old[len(old)-1]; *e = old[:len(old)-1]; return x }

func (w *world) after(d time.Duration, f func()) {
	w.order++
	heap.Push(&w.events, event{w.now + d, w.order, f})
}

func (w *world) log(format string, args ...any) {
	if w.logf != nil {
		w.logf("%8.3f "+format, append([]any{w.now.Seconds()}, args...)...)
	}
}

func (w *world) chance(p float64) bool { return w.rand.Float64() < p }

func (w *world) between(a, b time.Duration) time.Duration {
	return a + time.Duration(w.rand.Int64N(int64(b-a)))
}

func newWorld(t *testing.T, seed uint64, logf func(string, ...any), history *history) *world {
	return &world{history: history, seed: seed, t: t, logf: logf, rand: rand.New(rand.NewPCG(seed, 1)),
		keys: map[string]*stored{}, acked: map[string]uint64{}, sink: map[string]uint64{}, running: map[string]*agent{}}
}

func (w *world) addAgent() *agent {
	a := &agent{w: w, name: fmt.Sprint("agent-", len(w.agents)), file: true}
	w.agents = append(w.agents, a)
	return a
}

func simulate(t *testing.T, seed uint64, logf func(string, ...any), history *history) stats {
	w := newWorld(t, seed, logf, history)
	for range 2 + w.rand.IntN(4) {
		w.after(w.between(0, 5*time.Second), w.addAgent().boot)
	}
	w.planDeletion()
	w.planHalt()
	w.after(time.Second, w.fault)
	w.after(faultTime, w.endFaults)
	w.run(faultTime)
	quiet := quietTime
	if w.keeps {
		quiet += 2 * timing.TTL // as long as an agent may wait before it joins
	}
	w.after(quiet-30*time.Second, func() { w.ackedBefore = maps.Clone(w.acked) })
	w.run(quiet)
	w.checkEnd()
	return w.stats
}

// wanted returns the pipelines that are always declared. In two of five histories one has several instances.
func (w *world) wanted() map[string]Declaration {
	all := map[string]Declaration{"strict-1": {Digest: "d"}, "strict:2": {Digest: "d"},
		"relaxed": {Digest: "d", Relaxed: true}}
	switch w.seed % 5 {
	case 1:
		all["hot"] = Declaration{Digest: "d", Instances: 3}
	case 2:
		all["each"] = Declaration{Digest: "d", Each: true}
	}
	return all
}

func (a *agent) boot() {
	w := a.w
	w.log("%s boots", a.name)
	a.runs = map[string]*run{}
	a.node = &Node{
		Agent: Session{Agent: a.name}, Timing: timing, Rand: w.rand, Clock: func() time.Time { return time.Time{} },
		NewID: func() string { return fmt.Sprint(w.rand.Uint64()) }, Empty: state(0),
	}
	a.node.Init(w.now)
	a.declare()
	life := a.life
	w.after(w.between(0, time.Second), func() { a.at(life, a.sync) })
	a.tickLater(life)
}

// at runs f on the agent now, or at the end of its pause, unless the agent was killed.
func (a *agent) at(life int, f func()) {
	switch {
	case life != a.life:
	case a.paused:
		a.held = append(a.held, func() { a.at(life, f) })
	default:
		f()
	}
}

func (a *agent) sync() {
	w := a.w
	if a.cut || w.down {
		life := a.life
		w.after(time.Second, func() { a.at(life, a.sync) })
		return
	}
	for _, k := range sorted(w.keys) {
		a.node.Observe(w.now, w.keys[k].Entry)
	}
	a.node.Synced(w.now)
	a.executeCommands()
}

func (a *agent) tickLater(life int) {
	a.w.after(250*time.Millisecond, func() {
		if life != a.life {
			return
		}
		a.tickLater(life)
		if !a.paused {
			a.node.Tick(a.w.now)
			a.executeCommands()
		}
	})
}

// executeCommands carries out the commands of the node.
func (a *agent) executeCommands() {
	for commands := a.node.Commands(); len(commands) > 0; commands = a.node.Commands() {
		for _, c := range commands {
			switch c := c.(type) {
			case Write:
				a.write(c)
			case Read:
				a.read(c)
			case Start:
				a.start(c)
			case Stop:
				a.stop(c)
			case Saved:
				a.saved(c)
			case Notice:
				a.note(c)
			}
		}
	}
}

func (a *agent) note(n Notice) {
	a.w.log("%s: %s %s %s", a.name, n.Reason, n.Pipeline, n.Other)
	switch n.Reason {
	case TookOver:
		a.w.stats.Takeovers++
	case Deleted:
		a.w.stats.Deleted++
	case Fenced:
		a.w.stats.Fenced++
		a.checkFenced(n.Pipeline)
	case SelfStopped:
		a.w.stats.SelfStops++
	case RolledBack:
		a.w.t.Errorf("%s believes that the store went back", a.name)
	}
}

// run processes all events of the next d.
func (w *world) run(d time.Duration) {
	for until := w.now + d; len(w.events) > 0 && w.now < until && !w.t.Failed(); {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.f()
	}
}

// named returns the agent with this name.
func (w *world) named(name string) *agent {
	return w.agents[slices.IndexFunc(w.agents, func(a *agent) bool { return a.name == name })]
}
