package engine_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/processors"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// statefulChains are the processors that the simulation runs, by name. Records have a source s, a number n and a key k.
var statefulChains = map[string][]spec.Processor{
	"dedupe":               {dedupeBy(".Payload.After.k")},
	"aggregate":            {aggregateByKey},
	"throttle":             {throttled},
	"script":               {remembering},
	"script-then-throttle": {remembering, throttled},
	"dedupe-then-throttle": {dedupeBy(".Payload.After.k"), throttled},
	"throttle-then-dedupe": {throttled, dedupeBy(".Payload.After.k")},
	"dedupe-and-aggregate": {dedupeBy(".Payload.After.k"), aggregateByKey},
	"aggregate-and-dedupe": {aggregateByKey, dedupeBy(".Payload.After.s,.Payload.After.n")},
}

// places are the places of the processors: all in one place, or the last one in another.
var places = [][]string{{"src"}, {"pipeline"}, {"dst"}, {"src", "pipeline"}, {"pipeline", "dst"}}

var (
	throttled = spec.Processor{ID: "throttle", Plugin: "throttle", Settings: map[string]string{"rate": "20",
		"interval": "5ms"}}
	remembering = spec.Processor{ID: "script", Plugin: "custom.javascript", Settings: map[string]string{"script": `
		const seen = new Set();
		function process(rec) {
			const k = rec.Payload.After.k;
			if (seen.has(k)) return null;
			seen.add(k);
			return rec;
		}`}}
	aggregateByKey = spec.Processor{ID: "aggregate", Plugin: "aggregate", Settings: map[string]string{
		"key": ".Payload.After.k", "window.size": "4ms", "fields.n": "last(.Payload.After.n)",
		"fields.s": "last(.Payload.After.s)"}}
)

func dedupeBy(key string) spec.Processor {
	return spec.Processor{ID: "dedupe", Plugin: "dedupe", Settings: map[string]string{"key": key}}
}

// TestStateIsNeverAheadOfTheData kills and restarts runs whose destinations and dead letters are durable only after
// the sync before a position is saved, and makes syncs and commits fail. Every record is delivered or a dead letter at
// least once, whatever state the processors keep from former runs.
func TestStateIsNeverAheadOfTheData(t *testing.T) {
	for name, chain := range statefulChains {
		for i, at := range places {
			if len(at) > len(chain) {
				continue
			}
			t.Run(name+" at "+strings.Join(at, " and "), func(t *testing.T) {
				t.Parallel()
				for seed := range uint64(simulations(chain, i)) {
					synctest.Test(t, func(t *testing.T) {
						s := newStateSimulation(t, seed, at, chain)
						s.pass()
						if t.Failed() {
							t.Fatalf("it fails with the seed %d", seed)
						}
					})
				}
			})
		}
	}
}

var histories = flag.Int("histories", 1, "simulated histories of each chain of processors and place of it")

// simulations returns the number of seeds for a chain at a place. A chain with a script takes milliseconds to start, so
// all its places together get a tenth of the seeds.
func simulations(chain []spec.Processor, place int) int {
	if slices.ContainsFunc(chain, func(p spec.Processor) bool { return p.Plugin == "custom.javascript" }) {
		return (*histories*(place+1)+5)/10 - (*histories*place+5)/10
	}
	return *histories
}

// stateSimulation is a pipeline whose runs are killed, with the state that survives them.
type stateSimulation struct {
	*world
	dir    string
	total  int  // number of records of each source
	dedupe bool // records are dropped by their key, before anything else
	exact  bool // no key is delivered again after a graceful end
	chain  []spec.Processor
	at     []string

	mu      sync.Mutex
	rng     *rand.Rand
	faulty  bool          // guarded by mu: something goes wrong in this run
	calm    int           // guarded by mu: events until the run is killed
	dead    bool          // guarded by mu: the run was killed: nothing becomes durable any more
	killed  chan struct{} // closed when the run is killed
	letters stored        // guarded by mu
	dests   []*volatile
}

// stored has the durable keys, and the keys that a kill removes.
type stored struct {
	durable map[string]bool
	written []string
}

func (s *stored) sync() {
	for _, k := range s.written {
		s.durable[k] = true
	}
	s.written = nil
}

var errKilled = errors.New("it was killed")

func newStateSimulation(t *testing.T, seed uint64, at []string, chain []spec.Processor) *stateSimulation {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	s := &stateSimulation{world: newWorldUntil(ctx, t, time.Millisecond), dir: t.TempDir(), chain: chain, at: at,
		rng: rand.New(rand.NewPCG(seed, 1)), letters: stored{durable: map[string]bool{}}}
	s.total = 50 + s.rng.IntN(100)
	s.dedupe = slices.ContainsFunc(chain, func(p spec.Processor) bool {
		return p.Settings["key"] == ".Payload.After.k" && p.Plugin == "dedupe" || p.Plugin == "custom.javascript"
	})
	s.plugins.options.StateDir = s.dir
	s.window.Unsettled, s.window.Unacked, s.spec.DeadLetterQueue.WindowSize = 40, 60, 0
	for _, p := range processors.All() {
		s.plugins.processors[p.Name] = p.New
	}
	sources := 1 + s.rng.IntN(2)
	s.exact = len(chain) == 1 && chain[0].Plugin == "dedupe" && (sources == 1 || at[0] != "src")
	for i := range sources {
		s.source(sourceName(i), s.total)
	}
	for i := range 1 + s.rng.IntN(2) {
		id := "dst"
		if i > 0 {
			id = "other"
		}
		d := &volatile{sim: s, stored: stored{durable: map[string]bool{}}, refuses: s.rng.IntN(2) == 0}
		s.dests = append(s.dests, d)
		s.destination(id, &fakeDestination{})
		s.plugins.destinations["p:"+id] = d
	}
	s.declare(0)
	return s
}

func sourceName(i int) string { return []string{"src", "second"}[i] }

// declare declares the processors; their settings differ between versions.
func (s *stateSimulation) declare(version int) {
	chain := make([]spec.Processor, len(s.chain))
	for i, p := range s.chain {
		c := spec.Pipeline{Processors: []spec.Processor{p}}
		chain[i] = c.Clone().Processors[0]
		switch p.Plugin {
		case "dedupe":
			chain[i].Settings["window.count"] = strconv.Itoa(100_000 - version)
		case "throttle":
			chain[i].Settings["burst"] = strconv.Itoa(20 + version)
		case "custom.javascript":
			chain[i].Settings["memory"] = strconv.Itoa(128<<20 - version)
		}
	}
	first := chain
	if len(s.at) > 1 {
		first = chain[:len(chain)-1]
		s.place(s.at[1], chain[len(chain)-1:])
	}
	s.place(s.at[0], first)
}

// place declares the processors of a place.
func (s *stateSimulation) place(at string, chain []spec.Processor) {
	if at == "pipeline" {
		s.spec.Processors = chain
		return
	}
	for i, c := range s.spec.Connectors {
		if at == "src" && c.Type == spec.TypeSource || at == "dst" && c.Type == spec.TypeDestination {
			s.spec.Connectors[i].Processors = chain
		}
	}
}

// keyOf returns the key of a record. Records have equal keys only if duplicates should be dropped.
func (s *stateSimulation) keyOf(source, n int) int {
	switch {
	case !s.dedupe:
		return source*1000 + n
	case n%3 == 0:
		return n - n%7
	}
	return n
}

// pass passes all records in several runs; the last run succeeds.
func (s *stateSimulation) pass() {
	before := make([]map[string]bool, len(s.dests)) // by destination: keys written by runs that ended gracefully
	for i := range before {
		before[i] = map[string]bool{}
	}
	for range 2 + s.rng.IntN(6) {
		graceful := s.runOnce(true)
		if s.exact {
			s.again(before)
		}
		if graceful {
			for i, d := range s.dests {
				for k := range d.got {
					before[i][k] = true
				}
			}
		}
		if s.rng.IntN(4) == 0 {
			s.cutPower()
		}
	}
	s.runOnce(false)
	if s.exact {
		s.again(before)
	}
	var lost []string
	for i := range s.plugins.sources {
		if !slices.Contains([]string{"p:src", "p:second"}, i) {
			continue
		}
		for n := 1; n <= s.total; n++ {
			k := fmt.Sprint(s.keyOf(map[string]int{"p:src": 0, "p:second": 1}[i], n))
			for j, d := range s.dests {
				if !d.durable[k] && !s.letters.durable[k] {
					lost = append(lost, fmt.Sprintf("%d of %s with the key %s, at destination %d", n, i, k, j))
				}
			}
		}
	}
	if len(lost) > 0 {
		s.t.Errorf("%d records are neither delivered nor dead letters: %q …", len(lost), lost[:min(len(lost), 5)])
	}
}

// again checks that no run wrote a key that a gracefully ended run had written before.
func (s *stateSimulation) again(before []map[string]bool) {
	for i, d := range s.dests {
		for k := range d.got {
			if before[i][k] {
				s.t.Errorf("key %s was delivered again after a graceful end", k)
			}
		}
	}
}

// cutPower removes data that the processors wrote and did not, or may not have, synced.
func (s *stateSimulation) cutPower() {
	s.exact = false
	_ = filepath.WalkDir(s.dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && e.Name() == "seen" {
			content, _ := os.ReadFile(path)
			err = os.WriteFile(path, content[:s.rng.IntN(len(content)+1)], 0o600)
		}
		return err
	})
}

// runOnce runs the pipeline once. It reports whether the run ended gracefully.
func (s *stateSimulation) runOnce(faulty bool) (graceful bool) {
	s.faulty, s.dead, s.calm, s.killed = faulty, false, 10+s.rng.IntN(150), make(chan struct{})
	s.letters.written = nil
	var sources []*counted
	for i := range len(s.plugins.sources) {
		id := "p:" + sourceName(i)
		c := &counted{newFakeSource(s.t, s.store, id, s.total), s, i}
		sources, s.plugins.sources[id] = append(sources, c), c
	}
	for _, d := range s.dests {
		d.got, d.written, d.failed = map[string]int{}, nil, false
	}
	committing, end := context.WithCancel(s.t.Context())
	s.committer = &engine.Committer{Store: s, CommitInterval: time.Duration(s.rng.IntN(5)) * time.Millisecond, Barrier: s}
	ended := make(chan error, 2)
	go func() { ended <- s.committer.Run(committing) }()
	err := s.runUntil(func() bool {
		return !slices.ContainsFunc(sources, func(c *counted) bool { return c.ackedUpTo() < s.total })
	})
	end()
	if cerr := <-ended; cerr != nil {
		s.t.Error(cerr)
	}
	if err != nil && !faulty {
		s.t.Errorf("a run without faults ended with %v", err)
	}
	// A changed script starts with empty state.
	if s.chain[0].Plugin == "dedupe" && len(s.chain) == 1 && (len(sources) == 1 || s.at[0] != "src") {
		for _, d := range s.dests {
			for k, n := range d.got {
				if n > 1 {
					s.t.Errorf("key %s was delivered %d times in one run", k, n)
				}
			}
		}
	}
	return err == nil
}

// runUntil runs the pipeline until done; a faulty run also ends when it fails, is killed or is stopped.
func (s *stateSimulation) runUntil(done func() bool) error {
	ctx, cancel := context.WithCancelCause(s.t.Context())
	defer cancel(nil)
	p := s.pipeline()
	p.Store, p.Keep = s, s.keep
	if err := p.Prepare(ctx); err != nil {
		s.t.Fatal(err)
	}
	drain, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- p.Run(ctx, drain, func() {}) }()
	patience := time.Minute
	if s.faulty {
		patience = time.Duration(s.draw(200)) * time.Millisecond
	}
	stop, tick, version := time.After(patience), time.NewTicker(time.Millisecond), 0
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-s.killed:
			cancel(errKilled)
			return <-ended
		case <-stop:
			if !s.faulty {
				s.t.Error("a run without faults did not come to an end")
				cancel(errKilled)
				return <-ended
			}
			close(drain)
		case <-tick.C:
			if !s.faulty && done() {
				close(drain)
				return <-ended
			}
			if s.draw(10) == 0 {
				version++
				s.amend(p.Amend, version)
			}
		}
	}
}

// amend amends the run to another version, if possible.
func (s *stateSimulation) amend(amend func(context.Context, *spec.Pipeline, *spec.Pipeline) (*engine.Amendment, error),
	version int) {
	s.declare(version)
	declared := s.spec.Clone()
	if a, err := amend(s.t.Context(), declared, declared); err == nil {
		_ = a.Apply(func() {}) // the run may have ended, or need a restart for it
	}
}

// draw returns a random number less than n.
func (s *stateSimulation) draw(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.IntN(n)
}

// event chooses the fault for one durable operation: the run is killed before or after it, or the operation fails. The
// caller holds mu.
func (s *stateSimulation) event(apply func(), lose func()) error {
	if s.dead {
		return errKilled
	}
	if s.calm--; s.faulty && s.calm <= 0 {
		if s.rng.IntN(2) == 0 {
			apply()
		}
		s.dead = true
		close(s.killed)
		return errKilled
	}
	if s.faulty && s.rng.IntN(25) == 0 {
		lose()
		return errors.New("input/output error")
	}
	apply()
	return nil
}

// Sync implements engine.Barrier.
func (s *stateSimulation) Sync(pipelines []string, done func([]string, error)) {
	sync := func() {
		s.mu.Lock()
		err := s.event(func() {
			for _, d := range s.dests {
				d.sync()
			}
		}, func() {
			for _, d := range s.dests {
				d.failed = true
				d.written = nil
			}
		})
		if slices.ContainsFunc(s.dests, func(d *volatile) bool { return d.failed }) {
			err = errors.Join(err, errors.New("an earlier sync failed"))
		}
		s.mu.Unlock()
		done(pipelines, err)
	}
	if n := s.draw(4); n > 0 {
		time.AfterFunc(time.Duration(n)*time.Millisecond, sync)
		return
	}
	sync()
}

// SaveCheckpoints implements engine.CheckpointStore: the dead letters come first.
func (s *stateSimulation) SaveCheckpoints(ctx context.Context, all []spec.Checkpoint) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if failed := s.event(s.letters.sync, func() {}); failed != nil {
		return failed
	}
	if failed := s.event(func() { err = s.store.SaveCheckpoints(ctx, all) }, func() {}); failed != nil {
		return failed
	}
	return err
}

// The remaining methods of engine.Store.

func (s *stateSimulation) Checkpoint(ctx context.Context, id string) (*spec.Checkpoint, error) {
	return s.store.Checkpoint(ctx, id)
}
func (s *stateSimulation) BeginRun(ctx context.Context, id string) (int64, error) {
	return s.store.BeginRun(ctx, id)
}
func (s *stateSimulation) ConnectorState(ctx context.Context, id string) (*spec.ConnectorState, error) {
	return s.store.ConnectorState(ctx, id)
}
func (s *stateSimulation) SaveConnectorState(ctx context.Context, c *spec.ConnectorState) error {
	return s.store.SaveConnectorState(ctx, c)
}

// keep keeps a dead letter, which becomes durable with the next position.
func (s *stateSimulation) keep(_ context.Context, l *engine.DeadLetter) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return errKilled
	}
	s.letters.written = append(s.letters.written, keyIn(&l.Record))
	return nil
}

func keyIn(r *record.Record) string {
	m, _ := r.After.Structured()
	return fmt.Sprint(m["k"])
}

// counted is a source whose records have keys.
type counted struct {
	*fakeSource
	sim    *stateSimulation
	number int
}

func (c *counted) Read(ctx context.Context) (*record.Batch, error) {
	pause := time.NewTimer(time.Duration(c.sim.draw(3)) * time.Millisecond)
	defer pause.Stop()
	select {
	case <-c.stopped:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-pause.C:
	}
	if c.next >= c.total {
		return c.fakeSource.Read(ctx)
	}
	records := make([]record.Record, min(1+c.sim.draw(7), c.total-c.next))
	for i := range records {
		c.next++
		k := c.sim.keyOf(c.number, c.next)
		records[i] = record.Record{
			Operation: record.OperationCreate, Position: record.Position(strconv.Itoa(c.next)),
			After: record.Structured(map[string]any{"s": c.number, "n": c.next, "k": k}),
		}
	}
	return record.NewBatch(records), nil
}

// volatile is a destination that keeps settled records in memory until they are synced.
type volatile struct {
	fakeConnector
	sim     *stateSimulation
	refuses bool

	stored                // guarded by sim.mu
	got    map[string]int // guarded by sim.mu: number of writes of each key in this run
	failed bool           // guarded by sim.mu: a sync failed, and all later ones fail, too
	settle func(int, error)
}

func (d *volatile) Open(_ context.Context, settle func(int, error)) error {
	d.settle = settle
	return nil
}

func (d *volatile) Write(ctx context.Context, b *record.Batch) error {
	records, err := b.Records()
	if err != nil {
		return err
	}
	for i := range records {
		k := keyIn(&records[i])
		n, _ := strconv.Atoi(k)
		if d.sim.draw(20) == 0 {
			time.Sleep(time.Millisecond)
		}
		if d.refuses && n%5 == 0 {
			d.settle(1, errors.New("refused"))
			continue
		}
		d.sim.mu.Lock()
		if d.sim.dead || d.failed {
			d.sim.mu.Unlock()
			return errKilled
		}
		d.written = append(d.written, k)
		d.got[k]++
		d.sim.mu.Unlock()
		d.settle(1, nil)
	}
	return ctx.Err()
}

func (d *volatile) Flush(context.Context) error { return nil }
