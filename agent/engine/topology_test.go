package engine_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/agent/engine/backpressure"
	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/processor/flow"
	"github.com/conduit-agent/conduit/plugins/processor/window"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec"
)

var topologies = flag.Int("topologies", 12, "pipelines that are drawn")

// TestEveryTopologyMakesProgress draws pipelines with random connectors, processors, batches, windows and limits. In
// each of them, sources must be read to their end before a batch or window times out, all records must be settled once
// the longest timeout is over, and a stop must not wait for a timeout.
func TestEveryTopologyMakesProgress(t *testing.T) {
	t.Parallel()
	for seed := range *topologies {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newTopology(t, uint64(seed)).run() })
		})
	}
}

// Probability that records are dropped, and durations of batches and windows.
var (
	shares    = []int{0, 25, 50, 95, 100}
	durations = []time.Duration{time.Second, time.Hour, 24 * time.Hour}
)

// topology is a randomly drawn pipeline.
type topology struct {
	*world
	*rand.Rand
	text    []string // description of the topology
	sources []*drawnSource
	sinks   []*sink
	takes   time.Duration // time taken by processors that slow records down, and by slow destinations
	longest time.Duration // longest time for which records may be gathered before they are settled
	forever bool          // a batch without a delay may wait for ever
}

func newTopology(t *testing.T, seed uint64) *topology {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	r := rand.New(rand.NewPCG(seed, 1))
	p := &topology{world: newWorldUntil(ctx, t, pick(r, time.Millisecond, 50*time.Millisecond, time.Second)), Rand: r}
	for _, plugin := range slices.Concat(flow.Plugins(), window.Plugins()) {
		p.plugins.processors[plugin.Name] = plugin.New
	}
	p.window = backpressure.Window{Unacked: 1 + r.IntN(1000), Unsettled: 1 + r.IntN(300),
		Bytes: pick(r, 2000, 20_000, 4<<20)}
	switch r.IntN(4) {
	case 0:
		p.window.Shared = &backpressure.Shared{Bytes: pick(r, int64(1000), 100_000), Each: 500}
	case 1:
		p.window.Shared = &backpressure.Shared{Bytes: pick(r, int64(10_000), 200_000), Each: 5000, Strict: true}
	}
	if r.IntN(4) == 0 {
		p.window.Scheduler = backpressure.SchedulerWithLimit(1)
	}
	p.note("window %+v, commits every %v", p.window, p.committer.CommitInterval)
	gathers := false
	p.processors(nil, &p.spec.Processors, &gathers)
	for i := range 1 + r.IntN(3) {
		p.drawSource(fmt.Sprint("src", i), &gathers)
	}
	for i := range 1 + r.IntN(3) {
		p.drawDestination(fmt.Sprint("dst", i), gathers)
	}
	return p
}

func pick[T any](r *rand.Rand, choices ...T) T { return choices[r.IntN(len(choices))] }

func (p *topology) note(format string, args ...any) {
	p.text = append(p.text, fmt.Sprintf(format, args...))
}

// processors draws up to three processors. gathers reports whether an aggregate is among them.
func (p *topology) processors(owner fmt.Stringer, declared *[]spec.Processor, gathers *bool) {
	for range p.IntN(4) {
		id, settings := fmt.Sprint("proc", len(p.text)), map[string]string{}
		plugin := pick(p.Rand, "drop", "drop", "clone", "throttle", "aggregate", "greedy")
		switch plugin {
		case "drop":
			plugin = id
			share, salt := pick(p.Rand, shares...), p.IntN(1000)
			p.note("%s drops %d %%", id, share)
			p.plugins.processors[id] = func() sdk.Processor { return &script{process: dropping(share, salt)} }
		case "greedy":
			plugin = id
			p.plugins.processors[id] = func() sdk.Processor { return &script{process: greedily} }
		case "clone":
			settings["count"] = fmt.Sprint(1 + p.IntN(3))
		case "throttle":
			settings["rate"], settings["burst"] = fmt.Sprint(200+p.IntN(1000)), fmt.Sprint(p.IntN(20))
			p.takes += time.Minute
		case "aggregate":
			if *gathers {
				continue // the test does not count records of results
			}
			*gathers = true
			size := pick(p.Rand, durations...)
			p.longest += 2 * size
			settings["window.size"], settings["window.records"] = size.String(),
				fmt.Sprint(pick(p.Rand, 1+p.IntN(50), 4000))
			settings["key"], settings["fields.count"] = ".Payload.After.s", "count"
		}
		*declared = append(*declared, spec.Processor{ID: id, Plugin: plugin, Settings: settings})
		p.note("processor of %v: %s %v", owner, plugin, settings)
	}
}

// dropping drops records by their number.
func dropping(share, salt int) func(context.Context, *sdk.ProcessBatch) error {
	return func(_ context.Context, b *sdk.ProcessBatch) error {
		for i := range b.Len() {
			if n, _, ok := numberOf(b.Record(i)); ok && (n*7919+salt)%1000 < 10*share {
				b.Filter(i)
			}
		}
		return nil
	}
}

// greedily takes so much memory for records that they pass in parts.
func greedily(_ context.Context, b *sdk.ProcessBatch) error {
	for i := range b.Len() {
		if b.Postpone(i) {
			break
		}
		if err := b.Take(i, 4<<20); err != nil {
			return err
		}
	}
	return nil
}

// numberOf returns the number and the source of a record, unless it is a result of an aggregate.
func numberOf(r *record.Record) (n int, source string, ok bool) {
	after, _ := r.After.Structured()
	v, ok := after["n"].(int64)
	source, _ = after["s"].(string)
	return int(v), source, ok
}

// drawnSource returns numbered records and has a limit of unacknowledged records.
type drawnSource struct {
	fakeConnector
	p         *topology
	id        string
	total     int
	most      int           // records in a batch
	pause     time.Duration // before each batch
	limit     int           // 0: none
	says      bool          // when it is stalled; otherwise it declares the limit
	mu        sync.Mutex
	next      int // guarded by mu
	acked     int // guarded by mu
	freed     chan struct{}
	stopped   chan struct{}
	stoppable sync.Once
}

func (p *topology) drawSource(id string, gathers *bool) {
	s := &drawnSource{p: p, id: id, total: 200 + p.IntN(1000), most: 1 + p.IntN(100),
		pause: pick(p.Rand, 0, time.Millisecond, 20*time.Millisecond),
		limit: pick(p.Rand, 0, 0, 1+p.IntN(20), 1+p.IntN(500)), says: p.IntN(2) == 0, freed: make(chan struct{}, 1),
		stopped: make(chan struct{})}
	p.sources = append(p.sources, s)
	p.plugins.sources["p:"+id] = s
	c := spec.Connector{ID: id, Type: spec.TypeSource, Plugin: "src"}
	p.note("source %s: %d records in batches of %d each %v, limit %d, says so: %v", id, s.total, s.most, s.pause,
		s.limit, s.says)
	p.processors(s, &c.Processors, gathers)
	p.spec.Connectors = append(p.spec.Connectors, c)
}

func (s *drawnSource) String() string { return s.id }

func (s *drawnSource) MaxUnacked() int {
	if s.says {
		return 0
	}
	return s.limit
}

func (s *drawnSource) Open(context.Context, record.Position) error { return nil }

func (s *drawnSource) Read(ctx context.Context) (*record.Batch, error) {
	time.Sleep(s.pause)
	for {
		select {
		case <-s.stopped:
			return nil, io.EOF
		default:
		}
		if b := s.batch(); b != nil {
			return b, nil
		}
		if !s.ended() && s.says {
			sdk.Stalled(ctx)
		}
		select {
		case <-s.freed:
		case <-s.stopped:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (s *drawnSource) batch() *record.Batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(1+s.next*13%s.most, s.total-s.next)
	if s.limit > 0 {
		n = min(n, s.limit-(s.next-s.acked))
	}
	records := make([]record.Record, 0, max(0, n))
	for range n {
		s.next++
		records = append(records, record.Record{Position: record.Position(strconv.Itoa(s.next)),
			Operation: record.OperationCreate,
			Key:       record.Raw([]byte(s.id)),
			After:     record.Structured(map[string]any{"n": int64(s.next), "s": s.id})})
	}
	if len(records) == 0 {
		return nil
	}
	return record.NewBatch(records)
}

// ended reports whether all records were read.
func (s *drawnSource) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next == s.total
}

func (s *drawnSource) marks() (read, acked int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next, s.acked
}

func (s *drawnSource) Ack(_ context.Context, positions []record.Position) error {
	saved := s.p.store.saved("p:" + s.id)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range positions {
		n, _ := strconv.Atoi(string(at))
		if n != s.acked+1 || n > saved {
			s.p.t.Errorf("%s: %d acked after %d, with %d saved", s.id, n, s.acked, saved)
		}
		s.acked = n
	}
	select {
	case s.freed <- struct{}{}:
	default:
	}
	return nil
}

func (s *drawnSource) Stop(context.Context) error {
	s.stoppable.Do(func() { close(s.stopped) })
	return nil
}

// sink holds the records that a destination wrote.
type sink struct {
	p       *topology
	id      string
	size    int
	delay   time.Duration
	latency time.Duration

	mu      sync.Mutex
	last    map[string]int // guarded by mu: number of the last record, by source
	records map[string]int // guarded by mu: written records, or records counted in results, by source
}

func (p *topology) drawDestination(id string, gathers bool) {
	s := &sink{p: p, id: id, latency: pick(p.Rand, 0, 0, time.Millisecond, 50*time.Millisecond), last: map[string]int{},
		records: map[string]int{}}
	settings := map[string]string{}
	size, delay := pick(p.Rand, 0, 0, 1+p.IntN(10), 1+p.IntN(5000)), pick(p.Rand, append(durations, 0, 0)...)
	if size > 0 {
		settings["sdk.batch.size"] = fmt.Sprint(size)
	}
	if delay > 0 {
		settings["sdk.batch.delay"] = delay.String()
	}
	p.longest += delay
	p.forever = p.forever || delay == 0 && size > 1
	p.takes += 10 * time.Minute
	executable := p.IntN(4) == 0
	s.size, s.delay = size, delay
	p.sinks = append(p.sinks, s)
	p.plugins.destinations["p:"+id] = s.connector(executable)
	c := spec.Connector{ID: id, Type: spec.TypeDestination, Plugin: "dst", Settings: settings}
	p.note("destination %s: %v, takes %v, executable: %v", id, settings, s.latency, executable)
	p.processors(s, &c.Processors, &gathers)
	p.spec.Connectors = append(p.spec.Connectors, c)
}

func (s *sink) String() string { return s.id }

// connector returns a destination that writes to the sink.
func (s *sink) connector(executable bool) connector.Destination {
	d := &drawnDestination{latency: s.latency, buffer: sdk.WriteBuffer{Begin: func(context.Context) {}, Write: s.write,
		Breaks: func(error) bool { return false }, Size: s.size, Delay: s.delay}}
	if executable {
		return d
	}
	return gatherer{d}
}

// drawnDestination gathers records like destinations of the connector kit. Like an executable, it writes them out only
// when it ends.
type drawnDestination struct {
	fakeConnector
	latency time.Duration
	buffer  sdk.WriteBuffer
	settled func(int, error)
}

// gatherer writes out at any time.
type gatherer struct{ *drawnDestination }

func (g gatherer) WriteOut(ctx context.Context) error { return g.buffer.Flush(ctx) }

func (d *drawnDestination) Open(ctx context.Context, settled func(int, error)) error {
	d.settled = settled
	d.buffer.Open(ctx)
	return nil
}

func (d *drawnDestination) Write(ctx context.Context, b *record.Batch) error {
	records, err := b.Records()
	if err != nil {
		return err
	}
	time.Sleep(d.latency)
	return d.buffer.Put(ctx, records, d.settled)
}

func (d *drawnDestination) Flush(ctx context.Context) error { return d.buffer.Flush(ctx) }

func (d *drawnDestination) Teardown(context.Context) error {
	d.buffer.Close()
	return nil
}

func (s *sink) write(_ context.Context, records []record.Record) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range records {
		n, source, ok := numberOf(&records[i])
		if !ok {
			after, _ := records[i].After.Structured()
			source, _ := after["s"].(string)
			count, _ := after["count"].(int64)
			s.records[source] += int(count)
			continue
		}
		if n < s.last[source] {
			s.p.t.Errorf("%s: record %d of %s after %d", s.id, n, source, s.last[source])
		}
		if n > s.last[source] {
			s.records[source]++
		}
		s.last[source] = n
	}
	return len(records), nil
}

func (p *topology) run() {
	p.ackTimeout = time.Minute
	engine := p.pipeline()
	if err := engine.Prepare(p.t.Context()); err != nil {
		p.fatal("%v", err)
	}
	drain, ended := make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithCancel(p.t.Context())
	go func() { ended <- engine.Run(ctx, drain, func() {}) }()
	wait := func(limit time.Duration, until func() bool) bool {
		for start := time.Now(); !until(); time.Sleep(max(100*time.Millisecond, limit/1000)) {
			select {
			case err := <-ended:
				p.fatal("the pipeline ended: %v", err)
			default:
			}
			if time.Since(start) > limit {
				return false
			}
		}
		return true
	}
	defer cancel()
	early := p.IntN(4) == 0
	if early {
		wait(time.Duration(p.IntN(1000))*time.Millisecond, func() bool { return false })
	} else {
		if !wait(p.takes, func() bool {
			return !slices.ContainsFunc(p.sources, func(s *drawnSource) bool { return !s.ended() })
		}) {
			p.fatal("the sources are not read to their end after %v", p.takes)
		}
		settled := func() bool {
			return !slices.ContainsFunc(p.sources, func(s *drawnSource) bool {
				_, acked := s.marks()
				return acked < s.total
			})
		}
		if !p.forever && !wait(p.longest+p.takes, settled) {
			p.fatal("not all is acknowledged after %v", p.longest+p.takes)
		}
	}
	limit := 30 * time.Second
	if strings.Contains(fmt.Sprint(p.text), "throttle") {
		limit = p.takes // each record in a full window may be a write of its own
	}
	begin := time.Now()
	close(drain)
	select {
	case err := <-ended:
		if err != nil {
			p.fatal("the pipeline ended with %v", err)
		}
	case <-time.After(2 * limit):
		p.fatal("it did not end within %v", 2*limit)
	}
	if took := time.Since(begin); took > limit {
		p.fatal("the stop took %v", took)
	}
	p.check(early)
}

// check checks that every acknowledged record reached its destination.
func (p *topology) check(early bool) {
	for _, s := range p.sources {
		read, acked := s.marks()
		if !strings.Contains(fmt.Sprint(p.text), "aggregate") && !strings.Contains(fmt.Sprint(p.text), "throttle") &&
			acked < read {
			p.fatal("%s: %d records are read and %d acknowledged after the stop, with none held", s.id, read, acked)
		}
		for i, d := range p.sinks {
			if got := d.records[s.id]; got < p.passes(s, i, acked) {
				p.fatal("%s has %d of the %d records of %s that are acknowledged and not dropped", d.id, got,
					p.passes(s, i, acked), s.id)
			}
		}
	}
}

// passes returns how many of the first records of a source no filter drops on their way to a sink.
func (p *topology) passes(s *drawnSource, i, first int) (n int) {
	at := func(id string) []spec.Processor {
		i := slices.IndexFunc(p.spec.Connectors, func(c spec.Connector) bool { return c.ID == id })
		return p.spec.Connectors[i].Processors
	}
	chain := slices.Concat(at(s.id), p.spec.Processors, at(p.sinks[i].id))
	if a := slices.IndexFunc(chain, func(d spec.Processor) bool { return d.Plugin == "aggregate" }); a >= 0 {
		chain = chain[:a] // results are not dropped
	}
	for k := range first {
		b := sdk.NewProcessBatch(nil,
			[]record.Record{{After: record.Structured(map[string]any{"n": int64(k + 1), "s": s.id})}}, nil)
		for _, d := range chain {
			if f, ok := p.plugins.processors[d.Plugin]().(*script); ok {
				_ = f.process(context.Background(), b)
			}
		}
		if len(b.Fates()) == 0 || b.Fates()[0].Kind == sdk.Kept {
			n++
		}
	}
	return n
}

func (p *topology) fatal(format string, args ...any) {
	p.t.Helper()
	for _, s := range p.sources {
		read, acked := s.marks()
		p.note("%s: read %d, acknowledged %d", s.id, read, acked)
	}
	for _, d := range p.sinks {
		d.mu.Lock()
		p.note("%s: written %v", d.id, d.records)
		d.mu.Unlock()
	}
	p.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(p.text, "\n"))
}
