package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/api"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

func TestMain(m *testing.M) {
	api.LongShutdown(time.Hour)
	m.Run()
}

// world is a store and a reconciler in memory. Pipelines declared as running run at once, unless their plugin is
// "broken" or the world is frozen.
type world struct {
	t testing.TB

	mu         sync.Mutex
	declared   map[string]*spec.Declaration
	states     map[string]spec.State
	history    map[string][]spec.Revision
	files      []spec.FileState
	events     []spec.Event
	changed    chan struct{}
	positions  map[string]record.Position
	cleaned    []string
	cut        []string
	answers    map[string]*spec.Answer
	placed     map[string]spec.Assignment // pipelines assigned to other members of a cluster
	refused    []spec.MemberDeadLetters   // on other members
	frozen     bool                       // the observed state does not change
	notReady   error
	directory  spec.Directory
	checks     int
	restarts   int
	reads      int          // of the desired state of all pipelines
	gets       int          // calls of Get
	check      func() error // called first by Check; may be nil
	restartErr error        // of Restart
	cleanUp    func() error // called first by CleanUp; may be nil

	observers map[string]map[int]func(*record.Batch)
	observed  int
}

func newWorld(t testing.TB) *world {
	return &world{t: t, declared: map[string]*spec.Declaration{}, states: map[string]spec.State{},
		history: map[string][]spec.Revision{},
		changed: make(chan struct{}), positions: map[string]record.Position{}, answers: map[string]*spec.Answer{},
		observers: map[string]map[int]func(*record.Batch){}}
}

func (w *world) Declarations(ctx context.Context) ([]spec.Declaration, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads++
	var all []spec.Declaration
	for _, id := range slices.Sorted(maps.Keys(w.declared)) {
		d := *w.declared[id]
		d.Pipeline = *d.Pipeline.Clone()
		all = append(all, d)
	}
	return all, ctx.Err()
}

func (w *world) Get(_ context.Context, id string) (spec.Declaration, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gets++
	d := w.declared[id]
	if d == nil {
		return spec.Declaration{}, spec.ErrNotFound
	}
	copied := *d
	copied.Pipeline = *d.Pipeline.Clone()
	return copied, nil
}

func (w *world) ApplyIf(_ context.Context, c *spec.Changes, expect map[string]string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, version := range expect {
		have := ""
		if d := w.declared[id]; d != nil && d.Withdrawn.IsZero() {
			have = d.Version()
		}
		if have != version {
			return fmt.Errorf("pipeline %s: %w", id, spec.ErrConflict)
		}
	}
	for _, declare := range c.Declare {
		w.declare(declare)
	}
	for _, withdraw := range c.Withdraw {
		if d := w.declared[withdraw.ID]; d != nil {
			d.Withdrawn, d.Purge = time.Now(), withdraw.Purge
		}
	}
	w.events = append(w.events, c.Events...)
	for i := range w.events {
		w.events[i].ID = int64(i + 1)
	}
	w.reconcile()
	return nil
}

func (w *world) declare(c spec.Declare) {
	p := *c.Pipeline.Clone()
	d := &spec.Declaration{CreatedAt: time.Now()}
	if old := w.declared[p.ID]; old != nil {
		*d = *old
	}
	if digest := spec.Digest(&p); digest != d.Digest {
		d.Generation, d.Digest, d.Override = d.Generation+1, digest, ""
	}
	d.Pipeline, d.Owner, d.UpdatedAt, d.Withdrawn, d.Purge = p, c.Owner, time.Now(), time.Time{}, false
	w.declared[p.ID] = d
	w.history[p.ID] = append(w.history[p.ID], spec.Revision{Pipeline: p.ID, Number: int64(len(w.history[p.ID]) + 1),
		Generation: d.Generation, At: time.Now(), Origin: c.Origin, Action: "declare", Spec: &p})
}

// reconcile makes the observed state equal to the declared state. The caller holds mu.
func (w *world) reconcile() {
	if !w.frozen {
		for id, d := range w.declared {
			w.observe(id, d)
		}
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *world) observe(id string, d *spec.Declaration) {
	if !d.Withdrawn.IsZero() {
		if d.Purge {
			delete(w.declared, id)
			delete(w.states, id)
		}
		return
	}
	s := spec.State{PipelineID: id, Phase: spec.PhaseStopped, StoppedByUser: true, Since: time.Now()}
	if d.Want() == spec.StatusRunning {
		s = spec.State{PipelineID: id, Phase: spec.PhaseRunning, RunningGeneration: d.Generation, Since: time.Now()}
		if strings.Contains(d.Pipeline.Description, "broken") {
			s = spec.State{PipelineID: id, Phase: spec.PhaseDegraded, Error: "cannot open source", Since: time.Now()}
		}
	}
	if old := w.states[id]; old.Phase == s.Phase && old.RunningGeneration == s.RunningGeneration {
		return
	}
	w.states[id] = s
}

// freeze stops changes of the observed state until thaw is called.
func (w *world) freeze() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.frozen = true
}

func (w *world) restarted() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.restarts
}

func (w *world) thaw() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.frozen = false
	w.reconcile()
}

func (w *world) SetOverride(_ context.Context, id string, status spec.Status) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.declared[id]
	if d == nil {
		return spec.ErrNotFound
	}
	if d.Override = status; status == d.Pipeline.Status {
		d.Override = ""
	}
	w.reconcile()
	return nil
}

func (w *world) History(_ context.Context, id string) ([]spec.Revision, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.history[id]), nil
}

func (w *world) Purge(_ context.Context, id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.declared[id] != nil:
		return fmt.Errorf("cannot purge: %w", spec.ErrConflict)
	case len(w.history[id]) == 0:
		return fmt.Errorf("cannot purge: %w", spec.ErrNotFound)
	}
	delete(w.history, id)
	return nil
}

func (w *world) FileStates(context.Context) ([]spec.FileState, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.files), nil
}

func (w *world) Events(_ context.Context, after int64, limit int) ([]spec.Event, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	from := int(after)
	if after < 0 {
		from = max(0, len(w.events)-limit)
	}
	from = min(from, len(w.events))
	return slices.Clone(w.events[from:min(len(w.events), from+limit)]), nil
}

func (w *world) State(id string) (spec.State, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, ok := w.states[id]
	return s, ok
}

func (w *world) Changed() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}

func (w *world) Position(_ context.Context, id string) (record.Position, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.positions[id], nil
}

func (w *world) Restart(_ context.Context, id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.restartErr != nil {
		return w.restartErr
	}
	w.restarts++
	delete(w.states, id)
	w.reconcile()
	return nil
}

func (w *world) Answer(_ context.Context, key string) (*spec.Answer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.answers[key], nil
}

func (w *world) KeepAnswer(_ context.Context, key string, a *spec.Answer) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers[key] = a
	return nil
}

// loop is the loop of a world.
type loop struct{ *world }

func (loop) Check(context.Context) error { return nil }

func (w *world) ForceStop(_ context.Context, id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = append(w.cut, id)
	return nil
}

func (w *world) CleanUp(_ context.Context, id string) error {
	if w.cleanUp != nil {
		if err := w.cleanUp(); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range w.declared {
		for _, c := range d.Pipeline.Connectors {
			if d.Pipeline.QualifiedID(c.ID) == id {
				w.t.Errorf("%s is cleaned up while it is declared", id)
			}
		}
	}
	w.cleaned = append(w.cleaned, id)
	return nil
}

func (w *world) PluginChanges() []spec.PluginChange { return nil }

func (w *world) Directory() spec.Directory {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.directory
}

func (w *world) Ready(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.notReady
}

func (w *world) Plugins() []rest.Plugin {
	param := map[string]rest.Parameter{"rate": {Type: "TYPE_FLOAT", Validations: []rest.ParameterRule{}}}
	return []rest.Plugin{
		{Name: "builtin:generator@v1.0.0", Version: "v1.0.0", SourceParams: param,
			DestinationParams: map[string]rest.Parameter{}},
		{Name: "builtin:log@v1.0.0", Version: "v1.0.0", SourceParams: map[string]rest.Parameter{},
			DestinationParams: param},
	}
}

func (w *world) Check(_ context.Context, _ spec.ConnectorType, plugin string, settings map[string]string) error {
	if w.check != nil {
		if err := w.check(); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.checks++
	if name := strings.TrimPrefix(plugin, "builtin:"); name != "generator" && name != "log" && name != "file" {
		return fmt.Errorf("cannot find plugin %q: %w", plugin, api.ErrPluginNotFound)
	}
	for _, value := range settings {
		if value == spec.Redacted {
			w.t.Error("a plugin was given ***")
		}
	}
	if rate := settings["rate"]; rate != "" {
		if _, err := strconv.ParseFloat(rate, 64); err != nil {
			return errors.Join(&api.SettingError{Setting: "rate",
				Message: "must be a number, not " + strconv.Quote(rate)})
		}
	}
	return nil
}

func (w *world) Observe(id string, f func(*record.Batch)) (stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.observed++
	n := w.observed
	if w.observers[id] == nil {
		w.observers[id] = map[int]func(*record.Batch){}
	}
	w.observers[id][n] = f
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.observers[id], n)
	}
}

// pass shows a batch to the observers of a connector, and overwrites it afterwards, as a pipeline may.
func (w *world) pass(id string, records ...record.Record) {
	w.passBatch(id, record.NewBatch(records))
	for i := range records {
		records[i] = record.Record{Position: record.Position("spoiled")}
	}
}

func (w *world) passBatch(id string, b *record.Batch) {
	w.mu.Lock()
	observers := slices.Collect(maps.Values(w.observers[id]))
	w.mu.Unlock()
	for _, f := range observers {
		f(b)
	}
}

func (w *world) watched(id string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.observers[id])
}

// fromFile declares a pipeline as a file does.
func (w *world) fromFile(path string, p spec.Pipeline) {
	spec.Normalize(&p)
	err := w.ApplyIf(context.Background(),
		&spec.Changes{Declare: []spec.Declare{{Pipeline: p,
			Owner: spec.Owner{Kind: spec.OwnerFile, Path: path, Line: 3}}}}, nil)
	if err != nil {
		w.t.Fatal(err)
	}
}

// pipelineOf returns a pipeline with a generator and a log.
func pipelineOf(id string, status spec.Status) spec.Pipeline {
	p := spec.Pipeline{ID: id, Status: status, Name: id, Connectors: []spec.Connector{
		{ID: "gen", Type: spec.TypeSource, Plugin: "builtin:generator", Settings: map[string]string{"rate": "1"}},
		{ID: "out", Type: spec.TypeDestination, Plugin: "builtin:log"}}}
	spec.Normalize(&p)
	return p
}

func newServer(w *world) *api.Server {
	return &api.Server{Desired: w, Loop: loop{w}, Placements: w, Plugins: w, Taps: w, Answers: w, Changed: w.Changed,
		Position: w.Position, CleanUp: w.CleanUp, PluginChanges: w.PluginChanges, Ready: w.Ready,
		Directory: w.Directory,
		Tokens:    withTokens("", ""),
		Version:   "v1.2.3",
		Insight: api.Insight{
			Agent: func(context.Context) (rest.Agent, error) {
				return rest.Agent{Version: "v1.2.3", Settings: []rest.Setting{}}, nil
			},
			Check: w.misfits,
			ReadFile: func(string) ([]byte, error) {
				return []byte("pipelines:\n  - id: p\n    password: hunter2\n"), nil
			},
		}}
}

func withTokens(read, admin string) func() api.Tokens {
	return func() api.Tokens { return api.Tokens{Read: read, Admin: admin} }
}

// call is a request to a handler and its response.
type call struct {
	status int
	header http.Header
	body   []byte
}

func (c call) decode(t *testing.T) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(c.body, &v); err != nil {
		t.Fatalf("%d %s: %v", c.status, c.body, err)
	}
	return v
}

func (c call) reason() string { return rest.ParseError(c.status, c.body).Reason }

// do calls the handler. headers are names and values in turn.
func do(h http.Handler, method, path, body string, headers ...string) call {
	var r *http.Request
	if body == "" {
		r = httptest.NewRequest(method, path, nil)
	} else {
		r = httptest.NewRequest(method, path, io.NopCloser(bytes.NewBufferString(body)))
		r.Header.Set("Content-Type", "application/json")
	}
	r.Host = "localhost:8080"
	for i := 0; i < len(headers); i += 2 {
		if r.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return call{w.Code, w.Header(), w.Body.Bytes()}
}

// misfits reports a problem with the plugin "bad".
func (w *world) misfits(_ context.Context, p *spec.Pipeline) []spec.Problem {
	var all []spec.Problem
	for i, c := range p.Connectors {
		if c.Plugin == "bad" {
			all = append(all, spec.Problem{Path: fmt.Sprintf("/connectors/%d/plugin", i), Severity: spec.SeverityError,
				Code: "x", Message: "is bad"})
		}
	}
	return all
}

// Processors returns the processor plugins of the world: field.set.
func (w *world) Processors() []rest.ProcessorPlugin {
	return []rest.ProcessorPlugin{{Name: "builtin:field.set@v1.0.0",
		Parameters: map[string]rest.Parameter{"field": {Type: "TYPE_STRING", Validations: []rest.ParameterRule{}}}}}
}

// CheckProcessors refuses the plugin "nonexistent" and the setting "bad".
func (w *world) CheckProcessors(_ context.Context, at string, declared []spec.Processor) []spec.Problem {
	var all []spec.Problem
	for i, p := range declared {
		path := fmt.Sprintf("%s/%d", at, i)
		if p.Plugin == "nonexistent" {
			all = append(all, spec.Problem{Path: path + "/plugin", Code: spec.CodeProcessorNotFound,
				Message: "there is no processor nonexistent"})
		}
		if _, bad := p.Settings["bad"]; bad {
			all = append(all, spec.Problem{Path: path + "/settings/bad", Code: spec.CodeInvalid,
				Message: "setting bad is bad"})
		}
	}
	return all
}

func (w *world) DeadLettersElsewhere(string) []spec.MemberDeadLetters { return w.refused }

func (w *world) Terms(id string) *spec.EffectiveTerms {
	if w.Assignment(id) == nil {
		return nil
	}
	return &spec.EffectiveTerms{Mode: spec.ClusterRelaxed, Labels: map[string]string{"site": "berlin"}}
}

func (w *world) Instances(d *spec.Declaration) *spec.RunningInstances {
	if !d.Pipeline.Instances.Several() {
		return nil
	}
	return &spec.RunningInstances{Declared: d.Pipeline.Instances,
		Running: []spec.InstanceAssignment{{Instance: 1, Member: "m2", Since: time.Unix(1000, 0).UTC()}},
		Message: "the rest waits"}
}

func (w *world) Assignment(id string) *spec.Assignment {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p, ok := w.placed[id]; ok {
		return &p
	}
	return nil
}
