// Package kill is the kill suite. It proves with a real server, and with a real agent in a separate process, that a
// connector loses nothing.
//
// A case defines how to start the server, how to reach it, and how to write numbered records to it or read them back.
// While numbered records flow, the suite kills and restarts agent and server, cuts, delays and stalls the connections
// between them, makes connections half-open, and replaces credentials. After each fault it waits until all records have
// arrived. Then it checks the ledger: every number is there, in the promised order, and repeated only where the
// connector may repeat it.
//
// Each connector has a file in this directory, which registers its cases with RunSource or RunDestination in tests
// named TestNAMESource or TestNAMEDestination, so -run TestNAME selects them all. Package plugintest checks that a
// source ignores the content of positions and acknowledgements; the test of the connector has the Target for it.
package kill

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/spec"
)

// Server is a server that the suite stops and starts again; *server.Process implements it.
type Server interface {
	// Start returns when the server answers, at the same address as before.
	Start(ctx context.Context) error
	// Stop ends it gracefully, and Kill with SIGKILL.
	Stop()
	Kill()
}

// The size of a run. Without -all it is small enough for each change and includes the faults that found the most bugs.
var (
	rounds = flag.Int("rounds", 1, "how often each fault is made")
	all    = flag.Bool("all", false,
		"make all faults, and test processors that keep state in all places with all destinations")
)

// All reports whether to test every combination instead of the most revealing ones.
func All() bool { return *all }

// System is a running server, or any other system that a connector reaches, with one ledger in it.
type System struct {
	// Addr is host and port of the server: the connector reaches it through a proxy. It is empty for a system without a
	// network, for which the suite skips network faults.
	Addr string
	// Settings returns the settings of the connector that reach the server at addr.
	Settings func(addr string) map[string]string
	Server   Server // nil: there is no server to stop
	// Rotate replaces the credentials that Settings refer to, as ${file:PATH}. When it returns, the server refuses the
	// old ones, also on connections that it closed, and the file has the new ones. nil: there are none.
	Rotate func(ctx context.Context) error

	// Produce, of a source, writes the records with the numbers first to first+n-1 to the system, in order, and returns
	// nil when they are durable there. After an error it is called again with the same numbers: then the system may
	// have records twice.
	Produce func(ctx context.Context, first, n int) error
	// Stored, of a destination, returns the numbers of the records in the system, in the order of writing as far as the
	// system knows it.
	Stored func(ctx context.Context) ([]int, error)
	// ByKernel says that only the kernel of the server's machine acknowledges the bytes that the connector sends. With
	// a half-open connection the kernels then do not notice each other's state, and previously acknowledged bytes
	// arrive.
	ByKernel bool
}

// Source is the case of a source.
type Source struct {
	Plugin     string                                 // for example builtin:postgres
	System     func(t *testing.T, dir string) *System // dir is the agent's, for files in settings
	Processors []spec.Processor                       // of the source, if its records need some
	Number     func(r *Line) (number int, err error)  // of a record; nil: NumberOf
	Group      func(number int) int                   // the order within a group is guaranteed; nil: one group
	NoOrder    bool                                   // no order is guaranteed
	Reread     bool                                   // faults of network and server may repeat records
	Lossy      bool                                   // at most once: faults may lose records, and repeat none
	Snapshot   bool                                   // changes may interleave with a snapshot: faults begin after it
	Skip       map[Fault]string                       // faults that do not apply, with the reason
	Interval   time.Duration                          // between two calls of Produce; 0: 10 ms
	Times      int                                    // faults per round; 0: one
	// Output returns the settings of the file destination, and the function that reads the numbers of all records in
	// the order of writing. nil: one file of records as JSON.
	Output func(dir string) (settings map[string]string, stored func(ctx context.Context) ([]int, error))
	// Beside runs while records flow, with the API of the agent, which a fault may end at any time. It returns when
	// ctx ends. nil: nothing runs.
	Beside func(ctx context.Context, api func() *client.Client)
}

// Destination is the case of a destination. Its records have structured payloads,
// {"n": number, "text": "…"}, and no key, unless Processors change them.
type Destination struct {
	Plugin     string
	System     func(t *testing.T, dir string) *System
	Processors []spec.Processor     // of the destination
	Shared     bool                 // Processors belong to the pipeline instead
	Refused    bool                 // all records become dead letters, which Stored returns
	Group      func(number int) int // the order within a group is guaranteed; nil: one group
	Unordered  bool                 // the system does not know the order of writing
	Once       bool                 // exactly once: no fault repeats a record
	Reread     bool                 // faults of network and server may repeat records
	Times      int                  // faults per round; 0: one
	Skip       map[Fault]string
	Isolate    *spec.Isolation // isolates the destination; nil: it is not isolated
	// Sibling returns the settings of a file destination that gets the same records. nil: there is none.
	Sibling func(dir string) map[string]string
}

// Fault is a kind of fault.
type Fault string

// The faults, in the order in which the suite makes them.
const (
	None               Fault = "nothing wrong"
	AgentKilled        Fault = "agent killed"
	AgentStopped       Fault = "agent stopped"
	ServerKilled       Fault = "server killed"
	ServerRestarted    Fault = "server restarted"
	ConnectionCut      Fault = "connection cut"
	ConnectionRefused  Fault = "connection refused"
	ConnectionDelayed  Fault = "connection delayed"
	ConnectionStalled  Fault = "connection stalled"
	ConnectionHalfOpen Fault = "connection half-open"
	CredentialsRotated Fault = "credentials rotated"
	Everything         Fault = "everything at random"
)

// maker defines how to make a fault, and its requirements.
type maker struct {
	Fault
	needs func(*flow) bool
	make  func(*flow) error
	few   bool // also made without -all
	once  bool // made once regardless of -rounds, because it takes long
}

// faults are made one at a time.
var faults = []maker{
	{None, always, func(*flow) error { return nil }, false, false},
	{AgentKilled, always, (*flow).killAgent, true, false},
	{AgentStopped, always, (*flow).stopAgent, false, false},
	{ServerKilled, (*flow).hasServer, (*flow).killServer, true, false},
	{ServerRestarted, (*flow).hasServer, (*flow).restartServer, false, false},
	{ConnectionCut, (*flow).hasProxy, (*flow).cut, true, false},
	{ConnectionRefused, (*flow).hasProxy, (*flow).refuse, false, false},
	{ConnectionDelayed, (*flow).hasProxy, (*flow).delay, false, false},
	{ConnectionStalled, (*flow).hasProxy, (*flow).stall, false, false},
	{ConnectionHalfOpen, (*flow).hasProxy, (*flow).halfOpen, false, true},
	{CredentialsRotated, (*flow).canRotate, (*flow).rotate, false, false},
}

func always(*flow) bool         { return true }
func (f *flow) hasServer() bool { return f.system.Server != nil }
func (f *flow) hasProxy() bool  { return f.proxy != nil }
func (f *flow) canRotate() bool { return f.system.Rotate != nil }

// repeats reports whether the fault may repeat records with any connector that is not exactly-once: the records that
// were outstanding when the agent ended.
func (fault Fault) repeats() bool { return fault == AgentKilled || fault == Everything }

// loses reports whether the fault may lose records with a connector that is at most once.
func (fault Fault) loses() bool { return fault != None && fault != ConnectionDelayed }

// RunSource runs the suite: records flow from the system into a file.
func RunSource(t *testing.T, c Source) {
	dir := newDir(t)
	f := newFlow(t, dir, c.System(t, dir))
	output := filepath.Join(dir, "output.jsonl")
	f.pipeline = spec.Pipeline{ID: "kill", Status: spec.StatusRunning, Connectors: []spec.Connector{
		{ID: "source", Type: spec.TypeSource, Plugin: c.Plugin, Settings: f.system.Settings(f.addr()),
			Processors: c.Processors},
		{ID: "file", Type: spec.TypeDestination, Plugin: "builtin:file", Settings: map[string]string{"path": output}},
	}}
	number := c.Number
	if number == nil {
		number = NumberOf
	}
	f.produce, f.interval, f.snapshot, f.times, f.beside = f.system.Produce, c.Interval, c.Snapshot, c.Times, c.Beside
	f.arrived = (&lines{path: output, number: number}).read
	if c.Output != nil {
		f.pipeline.Connectors[1].Settings, f.arrived = c.Output(dir)
	}
	f.promise = promise{group: c.Group, unordered: c.NoOrder, reread: c.Reread, lossy: c.Lossy, once: c.Lossy}
	f.run(c.Skip)
}

// RunDestination runs the suite: records flow from a file into the system.
func RunDestination(t *testing.T, c Destination) {
	dir := newDir(t)
	f := newFlow(t, dir, c.System(t, dir))
	input := filepath.Join(dir, "input.jsonl")
	decode := spec.Processor{ID: "decode", Plugin: "json.decode",
		Settings: map[string]string{"field": ".Payload.After"}, Workers: 1}
	f.pipeline = spec.Pipeline{ID: "kill", Status: spec.StatusRunning, Connectors: []spec.Connector{
		{ID: "file", Type: spec.TypeSource, Plugin: "builtin:file", Settings: map[string]string{"path": input}},
		{ID: "destination", Type: spec.TypeDestination, Plugin: c.Plugin, Settings: f.system.Settings(f.addr()),
			Isolate: c.Isolate},
	}}
	if c.Sibling != nil {
		f.pipeline.Connectors = append(f.pipeline.Connectors, spec.Connector{ID: "sibling", Type: spec.TypeDestination,
			Plugin: "builtin:file", Settings: c.Sibling(dir), Processors: []spec.Processor{decode}})
	}
	if processors := append([]spec.Processor{decode}, c.Processors...); c.Shared {
		f.pipeline.Processors = processors
	} else {
		f.pipeline.Connectors[1].Processors = processors
	}
	if c.Refused {
		f.pipeline.DeadLetterQueue = spec.DeadLetterQueue{
			Plugin:   "builtin:log",
			Settings: map[string]string{"level": "debug"},
		}
	}
	f.produce = func(_ context.Context, first, n int) error { return appendLines(input, first, n) }
	f.arrived = f.system.Stored
	f.promise = promise{group: c.Group, unordered: c.Unordered, once: c.Once, reread: c.Reread}
	f.times, f.writes = c.Times, true
	f.run(c.Skip)
}

// manyRounds is the number of rounds from which on most faults have few records between them. Otherwise reading all
// records after hundreds of faults takes longer than the faults do.
const manyRounds = 5

// between returns how many records are produced before a fault is made.
func between() int {
	if *rounds < manyRounds || rand.IntN(4) == 0 {
		return rand.IntN(200)
	}
	return rand.IntN(20)
}

func (f *flow) run(skip map[Fault]string) {
	f.start()
	if f.beside != nil {
		ctx, cancel := context.WithCancel(f.t.Context())
		var done sync.WaitGroup
		done.Go(func() { f.beside(ctx, f.agent.api) })
		defer done.Wait()
		defer cancel()
	}
	if f.snapshot {
		if err := f.passSnapshot(); err != nil {
			f.t.Fatal(err)
		}
	}
	kinds := append(slices.Clone(faults), maker{Everything, always, (*flow).everything, true, false})
	// If a case skips all of the few faults, the other faults are made.
	few := !*all &&
		slices.ContainsFunc(kinds, func(one maker) bool { return one.few && one.needs(f) && skip[one.Fault] == "" })
	for _, one := range kinds {
		if few && !one.few || !one.needs(f) {
			continue
		}
		if reason, ok := skip[one.Fault]; ok {
			f.t.Logf("no %s: %s", one.Fault, reason)
			continue
		}
		f.t.Run(string(one.Fault), func(t *testing.T) { f.fault(t, one) })
		if f.t.Failed() {
			f.t.Fatalf("the log of the agent ends with:\n%s", f.agent.tail())
		}
	}
}

// fault makes the fault repeatedly while records flow, and checks the records that arrived.
func (f *flow) fault(t *testing.T, fault maker) {
	began := f.ledger.count()
	resume := f.feed()
	n := *rounds * max(f.times, 1)
	if fault.once {
		n = 1
	}
	for range n {
		f.produces(between())
		if err := fault.make(f); err != nil {
			resume()
			t.Fatal(err)
		}
		if err := f.recovers(); err != nil {
			resume()
			t.Fatalf("after the fault nothing arrives: %v\nthe log of the agent ends with:\n%s", err, f.agent.tail())
		}
	}
	resume()
	got, err := f.catchUp()
	if err != nil {
		t.Fatal(err)
	}
	verdict := f.ledger.judge(got, f.promise)
	t.Logf("%d records, %d with this fault, %d repeated, %d lost", f.ledger.count(), f.ledger.count()-began,
		verdict.repeated-f.repeated, verdict.lost-f.lost)
	if err := verdict.err; err != nil {
		t.Fatal(err)
	}
	mayRepeat := !f.promise.once && (fault.repeats() || f.promise.reread && !f.stopped(fault.Fault))
	if n := verdict.repeated - f.repeated; n > 0 && !mayRepeat {
		t.Errorf("%d records are repeated: none may be", n)
	}
	if n := verdict.lost - f.lost; n > 0 && !fault.loses() {
		t.Errorf("%d records are lost: none may be", n)
	}
	f.repeated, f.lost = verdict.repeated, verdict.lost
}

// stopped reports whether the fault interrupts no write: a destination receives nothing twice after it.
func (f *flow) stopped(fault Fault) bool { return f.writes && (fault == None || fault == AgentStopped) }

func newDir(t *testing.T) string {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "pipelines"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func newFlow(t *testing.T, dir string, s *System) *flow {
	f := &flow{t: t, dir: dir, system: s, agent: &process{dir: dir}}
	if s.Addr != "" {
		f.proxy = network.NewProxy(t, s.Addr)
	}
	t.Cleanup(f.agent.kill)
	return f
}

func (f *flow) addr() string {
	if f.proxy == nil {
		return ""
	}
	return f.proxy.Addr()
}

// NumberOf returns the number in the field n of the payload.
func NumberOf(r *Line) (int, error) {
	var payload struct{ N *int }
	if err := r.Decode(&payload); err != nil {
		return 0, fmt.Errorf("cannot find the number of %s: %w", r.Payload.After, err)
	}
	if payload.N == nil {
		return 0, fmt.Errorf("cannot find the number of %s", r.Payload.After)
	}
	return *payload.N, nil
}
