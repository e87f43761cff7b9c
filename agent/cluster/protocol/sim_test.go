package protocol

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// TestSimulation runs clusters with faults: pauses, kills, lost and late answers, partitions
// and outages. One seed is one history. CONDUIT_SEEDS says how many, 25 by default and 2,000 where
// CI is set but not under the race detector; CONDUIT_SEED runs one and logs it.
func TestSimulation(t *testing.T) {
	if v, err := strconv.ParseUint(os.Getenv("CONDUIT_SEED"), 10, 64); err == nil {
		simulate(t, v, t.Logf)
		return
	}
	seeds := uint64(25)
	if os.Getenv("CI") != "" && !raceDetector {
		seeds = 2000
	}
	if v, err := strconv.ParseUint(os.Getenv("CONDUIT_SEEDS"), 10, 64); err == nil {
		seeds = v
	}
	total := stats{}
	for seed := range seeds {
		total.add(simulate(t, seed, nil))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d seeds: %+v", seeds, total)
	if total.Takeovers == 0 || total.Fenced == 0 || total.Late == 0 || total.Zombies == 0 {
		t.Errorf("the faults did not bring about what they should: %+v", total)
	}
}

// stats count what happened.
type stats struct{ Starts, Takeovers, Fenced, SelfStops, Late, Zombies, Records, Repeats int }

func (s *stats) add(o stats) {
	s.Starts += o.Starts
	s.Takeovers += o.Takeovers
	s.Fenced += o.Fenced
	s.SelfStops += o.SelfStops
	s.Late += o.Late
	s.Zombies += o.Zombies
	s.Records += o.Records
	s.Repeats += o.Repeats
}

const (
	faultTime = 120 * time.Second
	quietTime = 90 * time.Second
)

// world is everything outside of the nodes: the store, the network, the sources and sinks.
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
	down     bool // the store answers nothing
	quiet    bool // no more faults

	acked   map[string]uint64 // by pipeline: what the source may drop
	sink    map[string]uint64 // by pipeline: the greatest number that arrived
	running map[string]*agent // strict pipelines
}

type stored struct {
	Entry
	expires time.Duration // 0 never
}

// agent is a process with a node.
type agent struct {
	w      *world
	name   string
	node   *Node
	life   int // counts kills
	paused bool
	held   []func() // what arrived while it was paused
	cut    bool     // it does not reach the store
	runs   map[string]*run
}

// run moves records: it reads a number, writes it to the sink, and saves it.
type run struct {
	pipeline string
	epoch    uint64
	next     uint64 // to be read
	arrived  uint64 // at the sink
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

func simulate(t *testing.T, seed uint64, logf func(string, ...any)) stats {
	w := &world{t: t, logf: logf, rand: rand.New(rand.NewPCG(seed, 1)), keys: map[string]*stored{}, acked: map[string]uint64{}, sink: map[string]uint64{}, running: map[string]*agent{}}
	for i := range 2 + w.rand.IntN(4) {
		a := &agent{w: w, name: fmt.Sprint("agent-", i)}
		w.agents = append(w.agents, a)
		w.after(w.between(0, 5*time.Second), a.boot)
	}
	w.after(time.Second, w.fault)
	w.after(faultTime, w.endFaults)
	for len(w.events) > 0 && w.now < faultTime+quietTime && !t.Failed() {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.f()
	}
	w.checkEnd()
	return w.stats
}

func wantedPipelines() map[string]Wanted {
	return map[string]Wanted{"strict-1": {Digest: "d"}, "strict:2": {Digest: "d"}, "relaxed": {Digest: "d", Relaxed: true}}
}

func (a *agent) boot() {
	w := a.w
	w.log("%s boots", a.name)
	a.runs = map[string]*run{}
	a.node = &Node{
		Agent: Session{Agent: a.name}, Timing: TimingOf(20 * time.Second), Rand: w.rand, Clock: func() time.Time { return time.Time{} },
		NewID: func() string { return fmt.Sprint(w.rand.Uint64()) },
	}
	a.node.Init(w.now)
	a.node.Declare(w.now, wantedPipelines())
	life := a.life
	w.after(w.between(0, time.Second), func() { a.at(life, a.sync) })
	a.tickLater(life)
}

// at has the agent do f now, or once it is not paused any more, unless it was killed.
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
	a.obey()
}

func (a *agent) tickLater(life int) {
	a.w.after(250*time.Millisecond, func() {
		if life != a.life {
			return
		}
		a.tickLater(life)
		if !a.paused {
			a.node.Tick(a.w.now)
			a.obey()
		}
	})
}

// obey carries out the commands of the node.
func (a *agent) obey() {
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
	case Fenced:
		a.w.stats.Fenced++
		a.checkFenced(n.Pipeline)
	case SelfStopped:
		a.w.stats.SelfStops++
	case RolledBack:
		a.w.t.Errorf("%s believes that the store went back", a.name)
	}
}
