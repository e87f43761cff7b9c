package reconcile_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/conduit-agent/conduit/reconcile"
	"github.com/conduit-agent/conduit/spec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// runDigest and digest stand in for those of spec.
func runDigest(p *spec.Pipeline) string {
	c := *p
	c.Status, c.Name, c.Description = "", "", ""
	data, _ := json.Marshal(c)
	return string(data)
}

func digest(p *spec.Pipeline) string { return string(p.Status) + runDigest(p) }

// pipeline returns a running pipeline with one source, whose setting makes versions.
func pipeline(id, version string) spec.Pipeline {
	return spec.Pipeline{ID: id, Status: spec.StatusRunning, Connectors: []spec.Connector{
		{ID: "in", Type: spec.TypeSource, Plugin: "fake", Settings: map[string]string{"version": version}},
	}}
}

// memory is a store that keeps to the contract of reconcile.Store and checks its user.
type memory struct {
	mu         sync.Mutex
	declared   map[string]spec.Declaration
	files      map[string]spec.FileState
	states     map[string]spec.State
	connectors map[string]spec.ConnectorState
	events     []spec.Event
	applied    int
	fail       error        // of every call
	deleted    func()       // called when DeletePipeline has done its work, before it returns
	reads      atomic.Int64 // of the declarations
}

func newMemory() *memory {
	return &memory{declared: map[string]spec.Declaration{}, files: map[string]spec.FileState{}, states: map[string]spec.State{}, connectors: map[string]spec.ConnectorState{}}
}

func values[V any](m *memory, all map[string]V) ([]V, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []V
	for _, k := range slices.Sorted(maps.Keys(all)) {
		list = append(list, all[k])
	}
	return list, m.fail
}

func (m *memory) Declarations(context.Context) ([]spec.Declaration, error) {
	defer m.reads.Add(1)
	return values(m, m.declared)
}
func (m *memory) FileStates(context.Context) ([]spec.FileState, error) { return values(m, m.files) }
func (m *memory) States(context.Context) ([]spec.State, error)         { return values(m, m.states) }
func (m *memory) ConnectorStates(context.Context) ([]spec.ConnectorState, error) {
	return values(m, m.connectors)
}

func (m *memory) Apply(_ context.Context, c *spec.Changes) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	m.applied++
	for _, d := range c.Declare {
		now := m.declared[d.Pipeline.ID]
		now.Pipeline, now.Owner, now.Withdrawn, now.Purge = d.Pipeline, d.Owner, time.Time{}, false
		if sum := digest(&d.Pipeline); sum != now.Digest {
			now.Digest, now.Override = sum, ""
			now.Generation++
		}
		m.declared[d.Pipeline.ID] = now
	}
	for _, w := range c.Withdraw {
		now, ok := m.declared[w.ID]
		if !ok || !now.Withdrawn.IsZero() && !w.Purge {
			return fmt.Errorf("withdrawal of %q, which is not declared", w.ID)
		}
		now.Withdrawn, now.Purge = time.Now(), w.Purge
		m.declared[w.ID] = now
	}
	for _, f := range c.Files {
		m.files[f.Path] = f
	}
	for _, path := range c.Forget {
		delete(m.files, path)
	}
	m.events = append(m.events, c.Events...)
	return nil
}

func (m *memory) SaveStates(_ context.Context, states []spec.State, events ...spec.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	for _, s := range states {
		m.states[s.PipelineID] = s
	}
	m.events = append(m.events, events...)
	return nil
}

func (m *memory) SaveConnectorState(_ context.Context, c *spec.ConnectorState) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	m.connectors[c.ID] = *c
	return nil
}

func (m *memory) DeleteConnector(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	delete(m.connectors, id)
	return nil
}

func (m *memory) DeletePipeline(_ context.Context, id string) error {
	err := m.deletePipeline(id)
	if err == nil && m.deleted != nil {
		m.deleted()
	}
	return err
}

func (m *memory) deletePipeline(id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	if m.declared[id].Withdrawn.IsZero() {
		return fmt.Errorf("%q is declared", id)
	}
	for c := range m.connectors {
		if strings.HasPrefix(c, id+":") {
			return fmt.Errorf("%q has connector states", id)
		}
	}
	delete(m.declared, id)
	delete(m.states, id)
	return nil
}

func (m *memory) set(fail error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = fail
}

func (m *memory) connector(id string) spec.ConnectorState {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.connectors[id]
}

func (m *memory) state(id string) spec.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.states[id]
}

func (m *memory) declaration(id string) (spec.Declaration, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, ok := m.declared[id]
	return d, ok
}

// size is what is left of pipelines.
func (m *memory) size() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.declared) + len(m.connectors) + len(m.states)
}

func (m *memory) declare(ps ...spec.Pipeline) {
	c := &spec.Changes{}
	for _, p := range ps {
		c.Declare = append(c.Declare, spec.Declare{Pipeline: p, Owner: spec.Owner{Kind: spec.OwnerAPI}})
	}
	if err := m.Apply(context.Background(), c); err != nil {
		panic(err)
	}
}

func (m *memory) withdraw(id string, purge bool) {
	if err := m.Apply(context.Background(), &spec.Changes{Withdraw: []spec.Withdraw{{ID: id, Purge: purge}}}); err != nil {
		panic(err)
	}
}

func (m *memory) reasons() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []string
	for _, e := range m.events {
		all = append(all, e.Reason)
	}
	return strings.Join(all, " ")
}

// plant is a runner whose runs do as told by the version setting of the pipeline:
// what is in its maps fails or hangs. It checks that no pipeline runs twice.
type plant struct {
	t     testing.TB
	store *memory // learns of started connectors

	mu          sync.Mutex
	badPrepare  map[string]error         // version → why Prepare fails
	badStart    map[string]error         // version → why Run fails before started
	gates       map[string]chan struct{} // version → Prepare waits for it to be closed
	hangPrepare map[string]bool          // version → Prepare waits for its context
	slowDrain   map[string]time.Duration // version → how long it drains
	badDelete   map[string]error         // connector → why Delete fails
	crash       map[string]chan error    // pipeline → ends its run
	running     map[string]string        // pipeline → version
	open        int                      // runs prepared and not ended

	checkWithdrawn bool // no run may begin of a pipeline that is withdrawn
	log            []string
}

func newPlant(t testing.TB, store *memory) *plant {
	return &plant{t: t, store: store, badPrepare: map[string]error{}, badStart: map[string]error{}, gates: map[string]chan struct{}{}, hangPrepare: map[string]bool{}, slowDrain: map[string]time.Duration{},
		badDelete: map[string]error{}, crash: map[string]chan error{}, running: map[string]string{}}
}

func (f *plant) note(format string, args ...any) { f.log = append(f.log, fmt.Sprintf(format, args...)) }

func (f *plant) Prepare(ctx context.Context, d *spec.Declaration) (reconcile.Run, error) {
	version := d.Pipeline.Connectors[0].Settings["version"]
	f.mu.Lock()
	hang, gate, err := f.hangPrepare[version], f.gates[version], f.badPrepare[version]
	f.note("prepare %s %s", d.Pipeline.ID, version)
	f.mu.Unlock()
	if gate != nil {
		<-gate
	}
	if hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open++
	return &fakeRun{f: f, p: d.Pipeline, version: version}, nil
}

func (f *plant) Delete(ctx context.Context, c *spec.ConnectorState) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.running[c.PipelineID]; ok && c.Orphaned.IsZero() {
		f.t.Errorf("connector %s is deleted while its pipeline runs", c.ID)
	}
	f.note("delete %s", c.ID)
	return f.badDelete[c.ID]
}

type fakeRun struct {
	f       *plant
	p       spec.Pipeline
	version string
	used    bool
}

func (r *fakeRun) use() {
	if r.used {
		r.f.t.Errorf("run of %s used twice", r.p.ID)
	}
	r.used = true
}

func (r *fakeRun) Discard(context.Context) {
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	r.use()
	r.f.open--
	r.f.note("discard %s %s", r.p.ID, r.version)
}

func (r *fakeRun) Run(ctx context.Context, drain <-chan struct{}, started func()) error {
	f := r.f
	f.mu.Lock()
	r.use()
	if other, ok := f.running[r.p.ID]; ok {
		f.t.Errorf("%s %s runs while %s does", r.p.ID, r.version, other)
	}
	if d, _ := f.store.declaration(r.p.ID); f.checkWithdrawn && !d.Withdrawn.IsZero() {
		f.t.Errorf("%s runs although it is withdrawn", r.p.ID)
	}
	f.running[r.p.ID] = r.version
	crash := make(chan error, 1)
	f.crash[r.p.ID] = crash
	f.note("run %s %s", r.p.ID, r.version)
	fail := f.badStart[r.version]
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.running, r.p.ID)
		f.open--
		f.note("end %s %s", r.p.ID, r.version)
	}()
	if fail != nil {
		return fail
	}
	for _, c := range r.p.Connectors {
		_ = f.store.SaveConnectorState(ctx, &spec.ConnectorState{ID: r.p.QualifiedID(c.ID), PipelineID: r.p.ID, Active: c.Settings})
	}
	started()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-crash:
		return err
	case <-drain:
	}
	f.mu.Lock()
	slow := f.slowDrain[r.version]
	f.mu.Unlock()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(slow):
		return nil
	}
}

// take returns what was done since the last call.
func (f *plant) take() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	log := strings.Join(f.log, ", ")
	f.log = nil
	return log
}

// with changes what runs do.
func (f *plant) with(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// fails ends the run of a pipeline.
func (f *plant) fails(id string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case f.crash[id] <- err:
	default: // it fails already
	}
}

func (f *plant) runs(id string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running[id]
}

type fatal struct{ error }

func (fatal) Permanent() bool { return true }

var errBroken = errors.New("it is broken")
