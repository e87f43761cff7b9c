package reconcile_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/conduit-agent/conduit/reconcile"
	"github.com/conduit-agent/conduit/reconcile/reconciletest"
	"github.com/conduit-agent/conduit/spec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// runDigest and digest stand in for spec.RunDigest and spec.Digest.
func runDigest(p *spec.Pipeline) string {
	c := *p
	c.Status, c.Name, c.Description = "", "", ""
	data, _ := json.Marshal(c)
	return string(data)
}

func digest(p *spec.Pipeline) string { return string(p.Status) + runDigest(p) }

// versionOf returns the version in the settings of a pipeline.
func versionOf(p *spec.Pipeline) string {
	last := p.Connectors[len(p.Connectors)-1]
	return last.Settings["version"]
}

// flexible returns a running pipeline with a source and a destination. Versions differ in a setting that a run can be
// amended to.
func flexible(id, version string) spec.Pipeline {
	return spec.Pipeline{ID: id, Status: spec.StatusRunning, Connectors: []spec.Connector{
		{ID: "in", Type: spec.TypeSource, Plugin: "fake"},
		{ID: "out", Type: spec.TypeDestination, Plugin: "fake", Settings: map[string]string{"version": version}},
	}}
}

// pipeline returns a running pipeline with one source. Versions differ in its setting.
func pipeline(id, version string) spec.Pipeline {
	return spec.Pipeline{ID: id, Status: spec.StatusRunning, Connectors: []spec.Connector{
		{ID: "in", Type: spec.TypeSource, Plugin: "fake", Settings: map[string]string{"version": version}},
	}}
}

// halted returns p with the status stopped.
func halted(p spec.Pipeline) spec.Pipeline {
	p.Status = spec.StatusStopped
	return p
}

// memory is a store that keeps the contract of reconcile.Store and checks its use.
type memory struct {
	mu             sync.Mutex
	declared       map[string]spec.Declaration
	states         map[string]spec.State
	connectors     map[string]spec.ConnectorState
	events         []spec.Event
	saves          int           // calls of SaveStates
	slow           time.Duration // that a SaveStates takes
	applied        int
	changed        []string      // ids of changed or deleted declarations; each adds a revision
	started        []string      // ids of connectors with a changed or deleted state; each adds a revision
	connectorReads int           // calls of ConnectorStatesSince
	connectorRows  int           // rows that they returned
	skew           time.Duration // added to the store's clock
	fail           error         // of every call
	undeletable    error         // of DeletePipeline
	deleted        func()        // called before DeletePipeline returns successfully
	reads          atomic.Int64  // of the declarations
}

func newMemory() *memory {
	return &memory{declared: map[string]spec.Declaration{}, states: map[string]spec.State{},
		connectors: map[string]spec.ConnectorState{}}
}

func values[V any](m *memory, all map[string]V) ([]V, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return reconciletest.Values(all), m.fail
}

func (m *memory) DeclarationsSince(_ context.Context, revision int64) (spec.Delta[spec.Declaration], error) {
	defer m.reads.Add(1)
	m.mu.Lock()
	defer m.mu.Unlock()
	return reconciletest.Delta(m.declared, m.changed, revision), m.fail
}
func (m *memory) States(context.Context) ([]spec.State, error) { return values(m, m.states) }
func (m *memory) ConnectorStatesSince(_ context.Context, revision int64) (spec.Delta[spec.ConnectorState], error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.connectorReads++
	d := reconciletest.Delta(m.connectors, m.started, revision)
	m.connectorRows += len(d.Rows)
	return d, m.fail
}
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
	changed, err := reconciletest.Apply(m.declared, c, digest, time.Now().Add(m.skew))
	if m.changed = append(m.changed, changed...); err != nil {
		return err
	}
	m.events = append(m.events, c.Events...)
	return nil
}

func (m *memory) SaveStates(_ context.Context, states []spec.State, events ...spec.Event) error {
	time.Sleep(m.slow)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	m.saves++
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
	m.started = append(m.started, c.ID)
	return nil
}

func (m *memory) DeleteConnector(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	delete(m.connectors, id)
	m.started = append(m.started, id)
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
	if m.undeletable != nil {
		return m.undeletable
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
	m.changed = append(m.changed, id)
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

// size returns the number of remaining entries of pipelines.
func (m *memory) size() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.declared) + len(m.connectors) + len(m.states)
}

func (m *memory) declare(ps ...spec.Pipeline) { reconciletest.Declare(m, ps...) }

func (m *memory) withdraw(id string, purge bool) { reconciletest.Withdraw(m, id, purge) }

func (m *memory) update(id string, change func(*spec.Declaration)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.declared[id]
	change(&d)
	m.declared[id] = d
	m.changed = append(m.changed, id)
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

// plant is a runner. The version setting of a pipeline selects how it runs: versions in the maps fail or
// hang. plant checks that no pipeline runs twice.
type plant struct {
	t     testing.TB
	store *memory // learns of started connectors

	mu          sync.Mutex
	badPrepare  map[string]error         // version → why Prepare fails
	badStart    map[string]error         // version → why Run fails before started
	gates       map[string]chan struct{} // version → Prepare waits until it is closed
	hangPrepare map[string]bool          // version → Prepare waits for its context
	slowDrain   map[string]time.Duration // version → how long it drains
	slowStart   map[string]time.Duration // version → how long it opens
	badDelete   map[string]error         // connector → why Delete fails
	crash       map[string]chan error    // pipeline → ends its run
	running     map[string]string        // pipeline → version
	since       map[string]time.Time     // pipeline → when its run began
	good        map[string]spec.LastGood // pipeline → as last observed
	open        int                      // prepared runs and amendments that have not ended
	rigid       bool                     // amendments require a restart
	stuck       map[string]chan struct{} // version → closing it, or the end of the run, drains the old part
	badApply    map[string]error         // version → error of opening in an amendment
	slowApply   map[string]time.Duration // version → how long an amendment opens it

	checkWithdrawn bool // no run of a withdrawn pipeline may begin
	log            []string
}

func newPlant(t testing.TB, store *memory) *plant {
	return &plant{t: t, store: store, badPrepare: map[string]error{}, badStart: map[string]error{},
		gates: map[string]chan struct{}{}, hangPrepare: map[string]bool{}, slowDrain: map[string]time.Duration{},
		slowStart: map[string]time.Duration{},
		stuck:     map[string]chan struct{}{}, badApply: map[string]error{}, slowApply: map[string]time.Duration{},
		badDelete: map[string]error{}, crash: map[string]chan error{}, running: map[string]string{},
		since: map[string]time.Time{}, good: map[string]spec.LastGood{}}
}

// observe checks that a version replaces the last good one only after its probation, or if it runs like the good one.
func (f *plant) observe(s spec.State, confirm time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before, known := f.good[s.PipelineID]
	if s.LastGood == nil {
		delete(f.good, s.PipelineID)
		return
	}
	f.good[s.PipelineID] = *s.LastGood
	now := &s.LastGood.Pipeline
	if !known || runDigest(&before.Pipeline) == runDigest(now) {
		return
	}
	if id := s.PipelineID; f.running[id] != versionOf(now) || time.Since(f.since[id]) < confirm {
		f.t.Errorf("%s %s is good, and %q runs since %v", id, versionOf(now), f.running[id], time.Since(f.since[id]))
	}
}

func (f *plant) note(format string, args ...any) { f.log = append(f.log, fmt.Sprintf(format, args...)) }

func (f *plant) Prepare(ctx context.Context, d *spec.Declaration) (reconcile.Run, error) {
	version, err := f.prepare(ctx, "prepare", d)
	if err != nil {
		return nil, err
	}
	return &fakeRun{f: f, p: d.Pipeline, version: version, broken: make(chan error, 1), ended: make(chan struct{})}, nil
}

// prepare makes a version ready, and counts it as open.
func (f *plant) prepare(ctx context.Context, what string, d *spec.Declaration) (version string, err error) {
	version = versionOf(&d.Pipeline)
	f.mu.Lock()
	hang, gate, err := f.hangPrepare[version], f.gates[version], f.badPrepare[version]
	f.note("%s %s %s", what, d.Pipeline.ID, version)
	f.mu.Unlock()
	if gate != nil {
		<-gate
	}
	if hang {
		<-ctx.Done()
		return "", ctx.Err()
	}
	if err != nil {
		return "", err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open++
	return version, nil
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
	broken  chan error    // ends it after a failed amendment
	ended   chan struct{} // closed when it moves no more records
}

// fakeAmendment is an amendment of a fakeRun.
type fakeAmendment struct {
	r       *fakeRun
	p       spec.Pipeline
	version string
	used    bool
}

func (r *fakeRun) Amend(ctx context.Context, d *spec.Declaration) (reconcile.Amendment, error) {
	r.f.mu.Lock()
	rigid := r.f.rigid
	r.f.mu.Unlock()
	if rigid {
		return nil, spec.ErrNeedsRestart
	}
	version, err := r.f.prepare(ctx, "amend", d)
	if err != nil {
		return nil, err
	}
	return &fakeAmendment{r: r, p: d.Pipeline, version: version}, nil
}

// use records that the amendment is no longer open.
func (a *fakeAmendment) use(format string, args ...any) {
	f := a.r.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if a.used {
		f.t.Errorf("amendment of %s used twice", a.p.ID)
	}
	a.used = true
	f.open--
	f.note(format, args...)
}

func (a *fakeAmendment) Discard(context.Context) { a.use("discard %s %s", a.p.ID, a.version) }

func (a *fakeAmendment) Apply(drained func()) error {
	a.use("apply %s %s", a.p.ID, a.version)
	f := a.r.f
	f.mu.Lock()
	stuck, slow, bad := f.stuck[a.version], f.slowApply[a.version], f.badApply[a.version]
	f.mu.Unlock()
	if stuck != nil {
		select {
		case <-stuck:
		case <-a.r.ended:
		}
	}
	if isEnded(a.r.ended) {
		return errors.New("it is not running")
	}
	if errors.Is(bad, spec.ErrNeedsRestart) {
		f.with(func() { f.rigid = true })
		return bad
	}
	drained()
	select {
	case <-time.After(slow):
	case <-a.r.ended:
		return errors.New("it has ended")
	}
	if bad != nil {
		a.r.broken <- bad
		return bad
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !isEnded(a.r.ended) {
		f.running[a.p.ID], f.since[a.p.ID], a.r.p, a.r.version = a.version, time.Now(), a.p, a.version
	}
	return nil
}

func isEnded(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
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
	f.running[r.p.ID], f.since[r.p.ID] = r.version, time.Now()
	crash := make(chan error, 1)
	f.crash[r.p.ID] = crash
	f.note("run %s %s", r.p.ID, r.version)
	fail, opening := f.badStart[r.version], f.slowStart[r.version]
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.running, r.p.ID)
		close(r.ended)
		f.open--
		f.note("end %s %s", r.p.ID, r.version)
	}()
	if fail != nil {
		return fail
	}
	for _, c := range r.p.Connectors {
		_ = f.store.SaveConnectorState(ctx, &spec.ConnectorState{ID: r.p.QualifiedID(c.ID), PipelineID: r.p.ID,
			Active: c.Settings})
	}
	time.Sleep(opening)
	started()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-crash:
		return err
	case err := <-r.broken:
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

// take returns the log since the previous call.
func (f *plant) take() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	log := strings.Join(f.log, ", ")
	f.log = nil
	return log
}

// with changes the behavior of runs.
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
