package isolate_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/agent/engine/backpressure"
	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/agent/isolate"
	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// base are the calls of a connector that does nothing in them.
type base struct{}

func (base) Configure(context.Context, map[string]string) error          { return nil }
func (base) LifecycleOnCreated(context.Context, map[string]string) error { return nil }
func (base) LifecycleOnUpdated(context.Context, map[string]string, map[string]string) error {
	return nil
}
func (base) LifecycleOnDeleted(context.Context, map[string]string) error { return nil }
func (base) Teardown(context.Context) error                              { return nil }

// counter is a source of the numbers from its position up to total, one per record, of size bytes each.
type counter struct {
	base
	total, size int

	mu      sync.Mutex
	next    int // guarded by mu
	acked   int // guarded by mu
	stopped chan struct{}
	more    chan struct{} // total was raised
}

// raise raises the number of records while the source runs.
func (s *counter) raise(total int) {
	s.mu.Lock()
	s.total = total
	s.mu.Unlock()
	s.more <- struct{}{}
}

func (s *counter) Open(_ context.Context, pos record.Position) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next, _ = strconv.Atoi(string(pos))
	s.acked, s.stopped, s.more = s.next, make(chan struct{}), make(chan struct{})
	return nil
}

func (s *counter) Read(ctx context.Context) (*record.Batch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.stopped:
		return nil, io.EOF
	default:
	}
	for s.next == s.total {
		if err := s.wait(ctx); err != nil {
			return nil, err
		}
	}
	var records []record.Record
	for len(records) < 5 && s.next < s.total {
		s.next++
		text := strconv.Itoa(s.next)
		r := record.Record{Operation: record.OperationCreate, Position: record.Position(text),
			After: record.Raw(append([]byte(text+" "), bytes.Repeat([]byte("x"), s.size)...))}
		r.Metadata.Set(record.KeySourceConnectorID, "p:in")
		records = append(records, r)
	}
	return record.NewBatch(records), nil
}

// wait waits until total is raised, or the source ends.
func (s *counter) wait(ctx context.Context) error {
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-s.more:
		return nil
	case <-s.stopped:
		return io.EOF
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *counter) Ack(_ context.Context, positions []record.Position) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acked, _ = strconv.Atoi(string(positions[len(positions)-1]))
	return nil
}

func (s *counter) Stop(context.Context) error {
	close(s.stopped)
	return nil
}

func (s *counter) ackedUpTo() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acked
}

// sink is the system behind destinations: it keeps the positions written over all their instances.
type sink struct {
	mu       sync.Mutex
	got      []int             // guarded by mu
	opened   int               // guarded by mu: instances opened
	openErr  error             // guarded by mu: of the next Open
	writeErr func(n int) error // guarded by mu: the error that ends Write at number n; nil for none
	refuse   func(n int) error // guarded by mu: why number n is refused; nil: nothing is
	hold     chan struct{}     // guarded by mu: Write waits until it is closed; nil: it does not wait
	deaf     bool              // guarded by mu: it never settles
	late     time.Duration     // guarded by mu: after which it settles a record
	metadata []record.Metadata // guarded by mu
}

func (s *sink) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *sink) written() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

// opens returns the number of instances that were opened.
func (s *sink) opens() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened
}

// destination is an instance of a destination that writes to a sink.
type destination struct {
	base
	*sink
	settle func(n int, err error)

	settling  sync.Mutex     // held while settle is called later
	unsettled sync.WaitGroup // records that are settled later
}

func (d *destination) Open(_ context.Context, settled func(n int, err error)) error {
	d.settle = settled
	d.mu.Lock()
	defer d.mu.Unlock()
	d.opened++
	return d.openErr
}

func (d *destination) Write(ctx context.Context, b *record.Batch) error {
	records, err := b.Records()
	if err != nil {
		return err
	}
	for i := range records {
		d.mu.Lock()
		hold, deaf, late, fails, refuses := d.hold, d.deaf, d.late, d.writeErr, d.refuse
		d.mu.Unlock()
		if hold != nil {
			select {
			case <-hold:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		n, _ := strconv.Atoi(string(records[i].Position))
		if fails != nil {
			if err := fails(n); err != nil {
				return err
			}
		}
		if refuses != nil {
			if err := refuses(n); err != nil {
				d.settle(1, err)
				continue
			}
		}
		d.mu.Lock()
		d.got = append(d.got, n)
		d.metadata = append(d.metadata, records[i].Metadata)
		d.mu.Unlock()
		switch {
		case deaf:
		case late > 0:
			d.settleLater(late)
		default:
			d.settle(1, nil)
		}
	}
	return nil
}

// settleLater settles a record after this time.
func (d *destination) settleLater(late time.Duration) {
	d.unsettled.Go(func() {
		time.Sleep(late)
		d.settling.Lock()
		defer d.settling.Unlock()
		d.settle(1, nil)
	})
}

func (d *destination) Flush(ctx context.Context) error {
	d.unsettled.Wait()
	d.mu.Lock()
	hold := d.hold
	d.mu.Unlock()
	if hold == nil {
		return nil
	}
	select {
	case <-hold:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// world is a pipeline with a source, a destination fast and an isolated destination slow.
type world struct {
	t          *testing.T
	source     *counter
	fast, slow *sink
	queue      *sink
	limits     *spec.Isolation
	dead       spec.DeadLetterQueue
	logs       isolate.Logs
	timeout    time.Duration
	barrier    engine.Barrier

	mu        sync.Mutex
	events    []string                   // guarded by mu: reasons
	letters   []engine.DeadLetter        // guarded by mu: kept ones
	positions map[string]spec.Checkpoint // guarded by mu
}

func newWorld(t *testing.T, total int) *world {
	return &world{t: t, source: &counter{total: total}, fast: &sink{}, slow: &sink{}, queue: &sink{},
		limits: &spec.Isolation{Bytes: 64 << 20}, dead: spec.DeadLetterQueue{Plugin: "dlq", WindowSize: 1},
		logs: isolate.Logs{Dir: t.TempDir()}, positions: map[string]spec.Checkpoint{}}
}

// Source implements engine.Plugins.
func (w *world) Source(context.Context, string, string) (connector.Source, error) {
	return w.source, nil
}

// Destination implements engine.Plugins.
func (w *world) Destination(_ context.Context, plugin, id string) (connector.Destination, error) {
	switch {
	case plugin == "dlq":
		return &destination{sink: w.queue}, nil
	case id == "p:fast":
		return &destination{sink: w.fast}, nil
	}
	return isolate.New(isolate.Options{
		Pipeline: "p", ID: id, Logs: w.logs, Limits: w.limits, Sources: []string{"p:in"},
		Start:          func(context.Context) (connector.Destination, error) { return &destination{sink: w.slow}, nil },
		Batching:       engine.BatchPolicyOf,
		Delay:          func(failures int) time.Duration { return time.Duration(failures) * time.Second },
		AnswerTimeout:  w.timeout,
		CommitInterval: 50 * time.Millisecond,
		Barrier:        w.barrier,
		Event: func(_, reason, _ string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, reason)
		},
		Log: slog.New(slog.DiscardHandler),
	}), nil
}

func (w *world) ByName(plugin string) string { return plugin }

func (w *world) WithDefaults(_ string, settings map[string]string) map[string]string { return settings }

func (w *world) Processors(context.Context, string, []spec.Processor, connector.Chain) (connector.Chain, error) {
	return nil, errors.New("there are none")
}

// Checkpoint implements engine.Store.
func (w *world) Checkpoint(_ context.Context, id string) (*spec.Checkpoint, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c, ok := w.positions[id]; ok {
		return &c, nil
	}
	return nil, nil
}

func (w *world) SaveCheckpoints(_ context.Context, all []spec.Checkpoint) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range all {
		c.Position = bytes.Clone(c.Position)
		w.positions[c.ConnectorID] = c
	}
	return nil
}

func (w *world) BeginRun(context.Context, string) (int64, error) { return 1, nil }

func (w *world) ConnectorState(context.Context, string) (*spec.ConnectorState, error) {
	return nil, nil
}

func (w *world) SaveConnectorState(context.Context, *spec.ConnectorState) error { return nil }

func (w *world) seen() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.events)
}

func (w *world) kept() []engine.DeadLetter {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.letters)
}

// spec returns the declaration.
func (w *world) spec() *spec.Pipeline {
	return &spec.Pipeline{ID: "p", DeadLetterQueue: w.dead, Connectors: []spec.Connector{
		{ID: "in", Type: spec.TypeSource, Plugin: "src"},
		{ID: "fast", Type: spec.TypeDestination, Plugin: "dst"},
		{ID: "slow", Type: spec.TypeDestination, Plugin: "dst", Isolate: w.limits},
	}}
}

// run is a run of the pipeline.
type run struct {
	*engine.Pipeline
	w     *world
	drain chan struct{}
	kill  context.CancelFunc
	ended chan error
	end   func()
}

// start starts the pipeline, inside of a bubble of synctest.
func (w *world) start() *run {
	w.t.Helper()
	committer := &engine.Committer{Store: w, CommitInterval: 50 * time.Millisecond}
	committing, endCommitting := context.WithCancel(context.Background())
	go func() { _ = committer.Run(committing) }()
	declared := w.spec()
	r := &run{w: w, drain: make(chan struct{}), ended: make(chan error, 1), end: endCommitting}
	r.Pipeline = &engine.Pipeline{Declared: declared, Resolved: declared, Plugins: w, Store: w, Committer: committer,
		Recall: func(s map[string]string) (map[string]string, []string) { return s, nil },
		Window: backpressure.Default, AckTimeout: w.timeout, Log: slog.New(slog.DiscardHandler),
		Keep: func(_ context.Context, l *engine.DeadLetter) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.letters = append(w.letters, *l)
			return nil
		}}
	if err := r.Prepare(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	ctx, kill := context.WithCancel(context.Background())
	r.kill = kill
	go func() { r.ended <- r.Run(ctx, r.drain, func() {}) }()
	synctest.Wait()
	return r
}

// stop drains the run and returns its error.
func (r *run) stop() error {
	close(r.drain)
	err := <-r.ended
	r.kill()
	r.end()
	return err
}

// backlog returns the backlog of the isolated destination, the zero Backlog if it has no log.
func (r *run) backlog() spec.Backlog { return new(isolate.Part).Backlogs(r.Pipeline)["p:slow"] }

// failure returns the failures in the stage of the isolated destination.
func (r *run) failure() *measure.Report { return r.stage().Failure }

// held returns since when the isolated destination holds records.
func (r *run) held() time.Time { return r.stage().Held }

func (r *run) stage() *measure.Stage {
	stages := r.Pipeline.Stages(nil)
	return &stages[slices.IndexFunc(stages, func(s measure.Stage) bool { return s.ID == "p:slow" })]
}

// upTo returns the numbers from 1 to n.
func upTo(n int) []int { return between(1, n) }

func between(from, to int) (all []int) {
	for i := from; i <= to; i++ {
		all = append(all, i)
	}
	return all
}
