package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec"
)

// fakeStore keeps positions in memory and checks that its callers keep the contract.
type fakeStore struct {
	t  *testing.T
	mu sync.Mutex

	positions  map[string]spec.Checkpoint
	epochs     map[string]int64
	connectors map[string]spec.ConnectorState
	commits    int

	failBefore func() error // called before a save is applied
	failAfter  func() error // called after it was applied
}

func newFakeStore(t *testing.T) *fakeStore {
	return &fakeStore{t: t, positions: map[string]spec.Checkpoint{}, epochs: map[string]int64{},
		connectors: map[string]spec.ConnectorState{}}
}

func (s *fakeStore) Checkpoint(_ context.Context, id string) (*spec.Checkpoint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.positions[id]; ok {
		return &c, nil
	}
	return nil, nil
}

func (s *fakeStore) SaveCheckpoints(_ context.Context, positions []spec.Checkpoint) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commits++
	if s.failBefore != nil {
		if err := s.failBefore(); err != nil {
			return err
		}
	}
	for _, p := range positions {
		if p.Epoch != s.epochs[p.PipelineID] {
			return errors.New("fenced")
		}
		old := s.positions[p.ConnectorID]
		if old.Epoch == p.Epoch && p.Sequence < old.Sequence {
			s.t.Errorf("position of %s saved with sequence %d after %d", p.ConnectorID, p.Sequence, old.Sequence)
		}
		if len(p.Position) == 0 {
			s.t.Errorf("empty position of %s saved", p.ConnectorID)
		}
		p.Position = bytes.Clone(p.Position)
		s.positions[p.ConnectorID] = p
	}
	if s.failAfter != nil {
		return s.failAfter()
	}
	return nil
}

func (s *fakeStore) BeginRun(_ context.Context, pipelineID string) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epochs[pipelineID]++
	return s.epochs[pipelineID], nil
}

func (s *fakeStore) ConnectorState(_ context.Context, id string) (*spec.ConnectorState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.connectors[id]; ok {
		return &c, nil
	}
	return nil, nil
}

func (s *fakeStore) SaveConnectorState(_ context.Context, c *spec.ConnectorState) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connectors[c.ID] = *c
	return nil
}

func (s *fakeStore) saved(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, _ := strconv.Atoi(string(s.positions[id].Position))
	return n
}

// fakeConnector records the calls of every connector.
type fakeConnector struct {
	mu           sync.Mutex
	calls        []string
	configureErr error
	createdErr   error
	openErr      error
	tornDown     int
}

func (c *fakeConnector) call(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, fmt.Sprintf(format, args...))
}

func (c *fakeConnector) Configure(_ context.Context, settings map[string]string) error {
	c.call("configure %v", settings)
	return c.configureErr
}

func (c *fakeConnector) LifecycleOnCreated(_ context.Context, settings map[string]string) error {
	c.call("created %v", settings)
	return c.createdErr
}

func (c *fakeConnector) LifecycleOnUpdated(_ context.Context, before, after map[string]string) error {
	c.call("updated %v %v", before, after)
	return nil
}

func (c *fakeConnector) LifecycleOnDeleted(_ context.Context, settings map[string]string) error {
	c.call("deleted %v", settings)
	return nil
}

func (c *fakeConnector) teardowns() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tornDown
}

func (c *fakeConnector) Teardown(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tornDown++
	return nil
}

// fakeSource counts from its position up to total, in batches of random size, and then waits. It checks that positions
// are acknowledged in order and only after the store has them.
type fakeSource struct {
	fakeConnector
	t        *testing.T
	id       string
	store    *fakeStore
	total    int
	maxBatch int
	withhold map[int]bool // positions left empty

	next, acked int
	stopped     chan struct{}
	stopOnce    sync.Once
	caughtUp    func() // called when total is reached; it may raise total
}

func newFakeSource(t *testing.T, store *fakeStore, id string, total int) *fakeSource {
	return &fakeSource{t: t, id: id, store: store, total: total, maxBatch: 7, stopped: make(chan struct{})}
}

func (s *fakeSource) Open(_ context.Context, pos record.Position) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next, _ = strconv.Atoi(string(pos))
	s.acked = s.next
	return s.openErr
}

func (s *fakeSource) Read(ctx context.Context) (*record.Batch, error) {
	select {
	case <-s.stopped:
		return nil, io.EOF
	default:
	}
	if s.next >= s.total && s.caughtUp != nil {
		s.caughtUp()
	}
	if s.next >= s.total {
		select {
		case <-s.stopped:
			return nil, io.EOF
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	n := min(1+rand.IntN(s.maxBatch), s.total-s.next)
	records := make([]record.Record, n)
	for i := range records {
		s.next++
		pos := strconv.Itoa(s.next)
		records[i] = record.Record{Operation: record.OperationCreate, Position: record.Position(pos),
			Key: record.Raw([]byte(s.id)), After: record.Raw([]byte(pos))}
		if s.withhold[s.next] {
			records[i].Position = nil
		}
	}
	return record.NewBatch(records), nil
}

func (s *fakeSource) Ack(_ context.Context, positions []record.Position) error {
	saved := s.store.saved(s.id)
	for _, p := range positions {
		n, _ := strconv.Atoi(string(p))
		if n != s.acked+1 {
			s.t.Errorf("%s: position %d acked after %d", s.id, n, s.acked)
		}
		if n > saved {
			s.t.Errorf("%s: position %d acked, but only %d is saved", s.id, n, saved)
		}
		s.mu.Lock()
		s.acked = n
		s.mu.Unlock()
	}
	return nil
}

func (s *fakeSource) ackedUpTo() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acked
}

func (s *fakeSource) Stop(context.Context) error {
	s.stopOnce.Do(func() { close(s.stopped) })
	return nil
}

// fakeDestination keeps written records. It settles them from within Write or, when async, from a goroutine and in
// groups of random size.
type fakeDestination struct {
	fakeConnector
	t           *testing.T
	async       bool
	hold        chan struct{}               // when set, Write waits for it
	refuse      func(r record.Record) error // returns the error for refused records
	failAt      int                         // Write fails at this record, counted from 1
	gather      int                         // settles nothing before it has this many records
	surplus     int                         // number of records settled in excess of the written ones
	reject      error                       // the error for batches refused as a whole
	got         []record.Record             // guarded by mu
	settle      func(n int, err error)
	stopAndWait bool
	overlaps    bool
	results     chan func()
	done        sync.WaitGroup
	written     int
	ended       bool             // it was flushed or torn down
	instead     *fakeDestination // must be torn down when this one opens
}

func (d *fakeDestination) Overlaps() bool { return d.overlaps }

func (d *fakeDestination) Open(_ context.Context, settled func(int, error)) error {
	if d.instead != nil && d.instead.teardowns() != 1 {
		d.t.Error("opened before the one that it replaces was torn down")
	}
	d.settle, d.ended = settled, false
	if d.async {
		d.results = make(chan func(), 1000)
		d.done.Go(func() {
			for f := range d.results {
				f()
			}
		})
	}
	return d.openErr
}

func (d *fakeDestination) StopAndWait() { d.stopAndWait = true }

func (d *fakeDestination) Write(ctx context.Context, b *record.Batch) error {
	if d.hold != nil {
		select {
		case <-d.hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if d.ended {
		d.t.Error("written to after the end")
	}
	records, err := b.Records()
	if err != nil || len(records) == 0 {
		d.t.Errorf("written a batch of %d records, error %v", len(records), err)
	}
	if d.reject != nil {
		d.report(len(records), d.reject)
		return nil
	}
	for _, r := range records {
		d.written++
		if d.written == d.failAt {
			return errors.New("disk on fire")
		}
		if d.refuse != nil {
			if err := d.refuse(r); err != nil {
				d.report(1, err)
				continue
			}
		}
		d.mu.Lock()
		d.got = append(d.got, r)
		d.mu.Unlock()
		if d.gather == 0 {
			d.report(1, nil)
		} else if d.written%d.gather == 0 {
			d.report(d.gather, nil)
		}
	}
	if d.surplus > 0 {
		d.report(d.surplus, nil)
	}
	return nil
}

func (d *fakeDestination) report(n int, err error) {
	if d.async {
		d.results <- func() { d.settle(n, err) }
		return
	}
	d.settle(n, err)
}

func (d *fakeDestination) Flush(context.Context) error {
	d.ended = true
	if left := d.written; d.gather > 0 && left%d.gather > 0 {
		d.report(left%d.gather, nil)
	}
	return nil
}

func (d *fakeDestination) Teardown(ctx context.Context) error {
	d.ended = true
	if d.results != nil {
		close(d.results)
		d.done.Wait()
		d.results = nil
	}
	return d.fakeConnector.Teardown(ctx)
}

func (d *fakeDestination) records() []record.Record {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.got
}

// fakePlugins returns the connectors of a test by connector id.
type fakePlugins struct {
	sources      map[string]connector.Source
	destinations map[string]connector.Destination
	processors   map[string]func() sdk.Processor // by the name of their plugin
	options      processor.Options
	defaults     map[string]map[string]string // by plugin
}

func (p *fakePlugins) Source(_ context.Context, plugin, id string) (connector.Source, error) {
	if s, ok := p.sources[id]; ok {
		return s, nil
	}
	return nil, fmt.Errorf("no plugin %s", plugin)
}

func (p *fakePlugins) Destination(_ context.Context, plugin, id string) (connector.Destination, error) {
	if d, ok := p.destinations[id]; ok {
		return d, nil
	}
	return nil, fmt.Errorf("no plugin %s", plugin)
}

func (p *fakePlugins) ByName(plugin string) string { return plugin }

func (p *fakePlugins) WithDefaults(plugin string, settings map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, p.defaults[plugin])
	maps.Copy(all, settings)
	return all
}

// Processors opens a real chain of processors that the test made.
func (p *fakePlugins) Processors(
	ctx context.Context, parent string, declared []spec.Processor, former connector.Chain,
) (connector.Chain, error) {
	o := p.options
	o.Former, _ = former.(*processor.Chain)
	o.Registry = &processor.Registry{}
	for name, make := range p.processors {
		o.Registry.Builtin = append(o.Registry.Builtin, sdk.ProcessorPlugin{Name: name, Version: "v1.0.0", New: make})
	}
	return processor.Open(ctx, parent, declared, o)
}
