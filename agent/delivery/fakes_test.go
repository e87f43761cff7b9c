package delivery_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/agent/engine/backpressure"
	"github.com/conduit-agent/conduit/agent/engine/measure"
	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/reconcile"
	"github.com/conduit-agent/conduit/spec"
)

// memory is a store. Its states outlive loops.
type memory struct {
	mu          sync.Mutex
	revision    int64
	declared    map[string]spec.Declaration
	states      map[string]spec.State
	checkpoints map[string]spec.Checkpoint
	events      []string // reasons
}

func newMemory() *memory {
	return &memory{declared: map[string]spec.Declaration{}, states: map[string]spec.State{},
		checkpoints: map[string]spec.Checkpoint{}}
}

func digest(p *spec.Pipeline) string {
	c := *p
	c.Status = ""
	data, _ := json.Marshal(c)
	return string(data)
}

func (m *memory) declare(p spec.Pipeline) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.revision++
	d := m.declared[p.ID]
	if sum := digest(&p); sum != d.Digest {
		d.Digest = sum
		d.Generation++
	}
	d.Pipeline, d.UpdatedAt = p, time.Now()
	m.declared[p.ID] = d
}

func (m *memory) DeclarationsSince(context.Context, int64) (d spec.Delta[spec.Declaration], err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d = spec.Delta[spec.Declaration]{Revision: m.revision, All: true}
	for _, row := range m.declared {
		d.Rows = append(d.Rows, &row)
	}
	return d, nil
}

func (m *memory) States(context.Context) ([]spec.State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := []spec.State{}
	for _, s := range m.states { // as read from a disk
		text, err := json.Marshal(s)
		var read spec.State
		if err = errors.Join(err, json.Unmarshal(text, &read)); err != nil {
			return nil, err
		}
		all = append(all, read)
	}
	return all, nil
}

func (m *memory) SaveStates(_ context.Context, states []spec.State, events ...spec.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range states {
		m.states[s.PipelineID] = s
	}
	for _, e := range events {
		m.events = append(m.events, e.Reason)
	}
	return nil
}

func (m *memory) count(reason string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.events {
		if r == reason {
			n++
		}
	}
	return n
}

func (m *memory) Checkpoint(_ context.Context, id string) (*spec.Checkpoint, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c, ok := m.checkpoints[id]; ok {
		return &c, nil
	}
	return nil, nil
}

func (m *memory) SaveCheckpoints(_ context.Context, all []spec.Checkpoint) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range all {
		m.checkpoints[c.ConnectorID] = c
	}
	return nil
}

func (*memory) ConnectorStatesSince(context.Context, int64) (d spec.Delta[spec.ConnectorState], err error) {
	return d, nil
}
func (*memory) ConnectorStates(context.Context) ([]spec.ConnectorState, error)       { return nil, nil }
func (*memory) ConnectorState(context.Context, string) (*spec.ConnectorState, error) { return nil, nil }
func (*memory) SaveConnectorState(context.Context, *spec.ConnectorState) error       { return nil }
func (*memory) DeleteConnector(context.Context, string) error                        { return nil }
func (*memory) DeletePipeline(context.Context, string) error                         { return nil }
func (*memory) BeginRun(context.Context, string) (int64, error)                      { return 1, nil }

// fake is a connector that a test controls.
type fake struct {
	open  func(ctx context.Context) error
	write func(ctx context.Context, n int) error // returns nil if n records are accepted; nil: they are
	read  func(ctx context.Context, next int) error
	stats *measure.Connector

	next    int
	stopped chan struct{}
	settled func(int, error)
}

func (*fake) Configure(context.Context, map[string]string) error                 { return nil }
func (*fake) LifecycleOnCreated(context.Context, map[string]string) error        { return nil }
func (*fake) LifecycleOnUpdated(_ context.Context, _, _ map[string]string) error { return nil }
func (*fake) LifecycleOnDeleted(context.Context, map[string]string) error        { return nil }
func (*fake) Teardown(context.Context) error                                     { return nil }

func (f *fake) opened(ctx context.Context) error {
	if f.open != nil {
		return f.open(ctx)
	}
	return nil
}

// fakeSource reads a record a second.
type fakeSource struct{ fake }

func (s *fakeSource) Open(ctx context.Context, pos record.Position) error {
	s.next, _ = strconv.Atoi(string(pos))
	return s.opened(ctx)
}

func (s *fakeSource) Read(ctx context.Context) (*record.Batch, error) {
	select {
	case <-s.stopped:
		return nil, io.EOF
	case <-time.After(time.Second):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s.read != nil {
		if err := s.read(ctx, s.next); err != nil {
			return nil, err
		}
	}
	s.next++
	pos := strconv.Itoa(s.next)
	return record.NewBatch([]record.Record{{Position: record.Position(pos), After: record.Raw([]byte(pos)),
		Operation: record.OperationCreate}}), nil
}

func (s *fakeSource) Ack(context.Context, []record.Position) error { return nil }
func (s *fakeSource) Stop(context.Context) error                   { close(s.stopped); return nil }

type fakeDestination struct{ fake }

func (d *fakeDestination) Open(ctx context.Context, settled func(int, error)) error {
	d.settled = settled
	return d.opened(ctx)
}

// errRefused makes a write or a processor refuse its records; any other error breaks the connector or processor.
var errRefused = errors.New("no such column")

func (d *fakeDestination) Write(ctx context.Context, b *record.Batch) error {
	var err error
	if d.write != nil {
		err = d.write(ctx, b.Len())
	}
	if err == nil || errors.Is(err, errRefused) {
		d.settled(b.Len(), err)
		return nil
	}
	return err
}

func (d *fakeDestination) Flush(context.Context) error { return nil }

// fakes make runs of pipelines of fakes. Connectors and processors behave as their fields specify in every run.
type fakes struct {
	store      *memory
	commits    *engine.Committer
	stats      *measure.Pipeline
	connectors map[string]fake // by id
	process    func(ctx context.Context) error
	defaults   map[string]string // of plugin out

	mu      sync.Mutex
	running *engine.Pipeline
	counts  map[string]*processor.Stats
}

// run is a run that is listed while it runs.
type run struct {
	*engine.Pipeline
	fakes *fakes
}

func (r run) Run(ctx context.Context, drain <-chan struct{}, started func()) error {
	r.fakes.set(r.Pipeline)
	defer r.fakes.set(nil)
	return r.Pipeline.Run(ctx, drain, started)
}

func (run) Amend(context.Context, *spec.Declaration) (reconcile.Amendment, error) {
	return nil, spec.ErrNeedsRestart
}

func (f *fakes) set(p *engine.Pipeline) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running = p
}

func (f *fakes) Prepare(ctx context.Context, d *spec.Declaration) (reconcile.Run, error) {
	w := backpressure.Default
	w.Shared, w.Scheduler = backpressure.NewShared(), backpressure.NewScheduler()
	p := &engine.Pipeline{Declared: &d.Pipeline, Resolved: &d.Pipeline, Plugins: f, Store: f.store,
		Committer: f.commits, Window: w, Stats: f.stats,
		Recall: func(s map[string]string) (map[string]string, []string) {
			return s, nil
		}, Log: slog.New(slog.DiscardHandler)}
	if err := p.Prepare(ctx); err != nil {
		return nil, err
	}
	return run{p, f}, nil
}

func (*fakes) Delete(context.Context, *spec.ConnectorState) error { return nil }

func (f *fakes) Pipeline(string) (*engine.Pipeline, *measure.Pipeline) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running, f.stats
}

func (f *fakes) EachProcessor(_ string, do func(string, *processor.Stats)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, s := range f.counts {
		do(id, s)
	}
}

func (f *fakes) Source(_ context.Context, plugin, id string) (connector.Source, error) {
	s := &fakeSource{f.connectors[plugin]}
	s.stopped, s.stats = make(chan struct{}), f.stats.Source(id)
	return s, nil
}

func (f *fakes) Destination(_ context.Context, plugin, _ string) (connector.Destination, error) {
	return &fakeDestination{f.connectors[plugin]}, nil
}

func (*fakes) ByName(plugin string) string { return plugin }

func (f *fakes) WithDefaults(plugin string, settings map[string]string) map[string]string {
	all := map[string]string{}
	if plugin == "out" {
		maps.Copy(all, f.defaults)
	}
	maps.Copy(all, settings)
	return all
}

func (f *fakes) Processors(ctx context.Context, parent string, declared []spec.Processor,
	_ connector.Chain) (connector.Chain, error) {
	o := processor.Options{Registry: &processor.Registry{}, Stats: func(id, _ string) *processor.Stats {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.counts = map[string]*processor.Stats{id: {}}
		return f.counts[id]
	}}
	o.Registry.Builtin = []sdk.ProcessorPlugin{{Name: "fake", Version: "v1.0.0", New: func() sdk.Processor {
		return &fakeProcessor{do: f.process}
	}}}
	return processor.Open(ctx, parent, declared, o)
}

type fakeProcessor struct {
	sdk.ProcessorBase
	do func(ctx context.Context) error
}

func (*fakeProcessor) Parameters() sdk.Parameters                         { return nil }
func (*fakeProcessor) Configure(context.Context, map[string]string) error { return nil }

// errDropped makes a processor drop its records.
var errDropped = errors.New("not wanted")

func (p *fakeProcessor) Process(ctx context.Context, b *sdk.ProcessBatch) error {
	err := p.do(ctx)
	for i := range b.Len() {
		switch {
		case errors.Is(err, errRefused):
			b.Refuse(i, err)
		case errors.Is(err, errDropped):
			b.Filter(i)
		}
	}
	if errors.Is(err, errRefused) || errors.Is(err, errDropped) {
		return nil
	}
	return err
}
