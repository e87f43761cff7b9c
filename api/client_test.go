package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/conduit-agent/conduit/api"
	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// serve starts a server and returns its client, and a function that ends it.
func serve(t testing.TB, s *api.Server) (c *client.Client, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(stop)
	return &client.Client{URL: "http://" + l.Addr().String(), Token: s.Tokens().Admin}, stop
}

func TestClientDoesEverything(t *testing.T) {
	w := newWorld(t)
	c, _ := serve(t, newServer(w))
	e := &everything{T: t, w: w, c: c}
	e.pipelines()
	e.connectors()
	e.processors()
	e.deadLettersAndRuns()
	e.history()
	e.deletion()
	e.files()
	e.agent()
}

// everything exercises all operations of a client, in a valid order.
type everything struct {
	*testing.T
	w *world
	c *client.Client
}

func (e *everything) must(_ any, err error) {
	e.Helper()
	if err != nil {
		e.Error(err)
	}
}

// pipelines creates and changes pipeline p.
func (e *everything) pipelines() {
	p, etag, err := e.c.CreatePipeline(e.Context(), "p", rest.PipelineConfig{Name: "n"}, client.Key("k"))
	if err != nil || p.ID != "p" || etag == "" {
		e.Fatalf("%+v %q %v", p, etag, err)
	}
	_, again, err := e.c.CreatePipeline(e.Context(), "p", rest.PipelineConfig{Name: "n"}, client.Key("k"))
	if err != nil || again != etag {
		e.Errorf("repeating with the same key: %q %v", again, err)
	}
	if _, _, err = e.c.UpdatePipeline(e.Context(), "p", rest.PipelineConfig{Name: "x"},
		client.IfMatch(`"other"`)); client.Reason(err) != rest.ReasonChanged {
		e.Errorf("lost race: %v", err)
	}
	_, _, err = e.c.UpdatePipeline(e.Context(), "p", rest.PipelineConfig{Name: "x"}, client.IfMatch(etag))
	e.must(nil, err)
}

// connectors creates and changes connectors of p, including a connector with a secret.
func (e *everything) connectors() {
	secret := map[string]string{"rate": "1", "db.password": "hunter2"}
	got, _, err := e.c.CreateConnector(e.Context(), rest.Connector{ID: "in", Type: rest.TypeSource, Plugin: "generator",
		PipelineID: "p", Config: rest.ConnectorConfig{Settings: secret}})
	if err != nil || got.ID != "p:in" || got.Config.Settings["db.password"] != spec.Redacted ||
		got.Config.Settings["rate"] != "1" {
		e.Errorf("%+v %v", got, err)
	}
	e.w.positions["p:in"] = record.Position("42")
	if got, _, err = e.c.Connector(e.Context(), "p:in"); err != nil || string(got.SourceState.Position) != "42" {
		e.Errorf("%+v %v", got, err)
	}
	_, _, err = e.c.UpdateConnector(e.Context(), "p:in", "", got.Config)
	e.must(nil, err)
	if stored := e.w.declared["p"].Pipeline.Connectors[0].Settings["db.password"]; stored != "hunter2" {
		e.Errorf("writing *** back stored %q", stored)
	}
	_, _, err = e.c.CreateConnector(e.Context(), rest.Connector{ID: "out", Type: rest.TypeDestination, Plugin: "log",
		PipelineID: "p"})
	e.must(nil, err)
	e.routes()
	e.isolation()
	e.must(e.c.Connectors(e.Context(), "p"))
	e.must(nil, e.c.ValidateConnector(e.Context(), rest.Validation{Type: rest.TypeSource, Plugin: "generator"}))
}

// routes changes which records the destination of p gets. A field that a change leaves out stays.
func (e *everything) routes() {
	condition, none, yes := "{{ true }}", "", true
	for _, step := range []struct {
		change rest.ConnectorConfig
		want   string
	}{
		{rest.ConnectorConfig{Condition: &condition}, "{{ true }} false"},
		{rest.ConnectorConfig{}, "{{ true }} false"},
		{rest.ConnectorConfig{Condition: &none, Default: &yes}, " true"},
		{rest.ConnectorConfig{}, " true"},
	} {
		got, _, err := e.c.UpdateConnector(e.Context(), "p:out", "", step.change)
		e.must(nil, err)
		shown := fmt.Sprint(got.Config.Condition != nil, got.Config.Default != nil)
		stored := e.w.declared["p"].Pipeline.Connectors[1]
		if s := fmt.Sprint(stored.Condition, " ", stored.Default); s != step.want ||
			shown != fmt.Sprint(stored.Condition != "", stored.Default) {
			e.Errorf("after %+v: %s, shown %s", step.change, s, shown)
		}
	}
	p, _, err := e.c.UpdatePipeline(e.Context(), "p", rest.PipelineConfig{Name: "x", Routing: spec.RouteToFirst})
	if err != nil || p.Config.Routing != spec.RouteToFirst {
		e.Errorf("%+v %v", p, err)
	}
	if p, _, err = e.c.UpdatePipeline(e.Context(), "p", rest.PipelineConfig{Name: "x"}); p.Config.Routing !=
		spec.RouteToFirst {
		e.Errorf("%+v %v", p, err)
	}
}

// isolation isolates the destination of p, and does not any more. A change without it keeps it.
func (e *everything) isolation() {
	yes, no := true, false
	limit := &spec.Isolation{Bytes: 5 << 20}
	for i, step := range []struct {
		change rest.ConnectorConfig
		bytes  int64 // 0: it is not isolated
		err    string
	}{
		{rest.ConnectorConfig{}, 0, ""},
		{rest.ConnectorConfig{Isolated: &no}, 0, ""},
		{rest.ConnectorConfig{Isolated: &yes}, spec.DefaultIsolationBytes, ""},
		{rest.ConnectorConfig{Isolate: limit}, limit.Bytes, ""},
		{rest.ConnectorConfig{Isolated: &yes}, limit.Bytes, ""},
		{rest.ConnectorConfig{Isolate: limit, Isolated: &no}, limit.Bytes, "leave one out"},
		{rest.ConnectorConfig{}, limit.Bytes, ""},
		{rest.ConnectorConfig{Isolated: &no}, 0, ""},
	} {
		got, _, err := e.c.UpdateConnector(e.Context(), "p:out", "", step.change)
		if (err == nil) != (step.err == "") || err != nil && !strings.Contains(err.Error(), step.err) {
			e.Errorf("step %d: %v", i, err)
		}
		stored := e.w.declared["p"].Pipeline.Connectors[1].Isolate
		if (stored == nil) != (step.bytes == 0) || stored != nil && stored.Bytes != step.bytes ||
			err == nil && !got.Config.Isolate.Equal(stored) {
			e.Errorf("step %d: %+v is stored, and %+v shown", i, stored, got.Config.Isolate)
		}
	}
}

// processors creates, changes and deletes a processor.
func (e *everything) processors() {
	_, _, err := e.c.CreateProcessor(e.Context(),
		rest.Processor{ID: "m", Plugin: "field.set", Parent: rest.Parent{Type: rest.ParentConnector, ID: "p:in"}})
	e.must(nil, err)
	_, _, err = e.c.UpdateProcessor(e.Context(), "p:in:m",
		rest.Processor{Condition: "{{ true }}", Config: rest.ProcessorConfig{Workers: 2}})
	e.must(nil, err)
	one, _, err := e.c.Processor(e.Context(), "p:in:m")
	if err != nil || one.Condition != "{{ true }}" || one.Plugin != "field.set" || one.Config.Workers != 2 {
		e.Errorf("%+v %v", one, err)
	}
	if all, err := e.c.Processors(e.Context(), "p"); err != nil || len(all) != 0 {
		e.Errorf("processors of the pipeline itself: %v %v", all, err)
	}
	e.must(nil, e.c.DeleteProcessor(e.Context(), "p:in:m"))
}

// deadLettersAndRuns changes the dead-letter queue, and starts and stops p.
func (e *everything) deadLettersAndRuns() {
	q, qtag, err := e.c.DeadLetterQueue(e.Context(), "p")
	e.must(nil, err)
	q.WindowSize = 7
	_, _, err = e.c.UpdateDeadLetterQueue(e.Context(), "p", q, client.IfMatch(qtag))
	e.must(nil, err)
	e.must(nil, e.c.StartPipeline(e.Context(), "p"))
	e.must(nil, e.c.RestartPipeline(e.Context(), "p"))
	e.must(nil, e.c.StopPipeline(e.Context(), "p"))
	e.must(e.c.Status(e.Context(), "p"))
}

// history exports, imports and rolls back p.
func (e *everything) history() {
	history, err := e.c.History(e.Context(), "p")
	if err != nil || len(history) < 5 || strings.Contains(fmt.Sprint(*history[4].Spec), "hunter2") {
		e.Errorf("history: %v %v", history, err)
	}
	file, err := e.c.Export(e.Context(), "p")
	if err != nil || strings.Contains(string(file), "hunter2") || len(spec.ParseExport(file).Pipelines) != 1 {
		e.Errorf("exported %s: %v", file, err)
	}
	e.must(e.c.Import(e.Context(), file))
	if stored := e.w.declared["p"].Pipeline.Connectors[0].Settings["db.password"]; stored != "hunter2" {
		e.Errorf("importing what was exported stored %q", stored)
	}
	_, _, err = e.c.Rollback(e.Context(), "p", 2)
	e.must(nil, err)
	if n := len(e.w.declared["p"].Pipeline.Connectors); n != 0 {
		e.Errorf("%d connectors after the rollback", n)
	}
	if _, _, err = e.c.Adopt(e.Context(), "p", ""); client.Reason(err) != rest.ReasonNoFile {
		e.Errorf("adopted by no file: %v", err)
	}
	if err := e.c.Purge(e.Context(), "p"); client.Reason(err) != rest.ReasonPipelineNotDeleted {
		e.Errorf("purged although it is declared: %v", err)
	}
}

// deletion deletes p, and then forgets it.
func (e *everything) deletion() {
	e.must(nil, e.c.DeletePipeline(e.Context(), "p"))
	delete(e.w.declared, "p") // it is cleaned up
	e.must(nil, e.c.Purge(e.Context(), "p"))
	if err := e.c.Purge(e.Context(), "p"); client.Reason(err) != rest.ReasonPipelineNotFound {
		e.Errorf("purged twice: %v", err)
	}
}

// files uses a pipeline that belongs to a file, and hands it over to the API.
func (e *everything) files() {
	e.w.fromFile("q.yaml", pipelineOf("q", spec.StatusRunning))
	if all, err := e.c.Statuses(e.Context()); err != nil || len(all) != 1 || all[0].Owner.Path != "q.yaml" {
		e.Errorf("statuses %+v %v", all, err)
	}
	if err := e.c.DeleteConnector(e.Context(), "q:gen", client.Live()); client.Reason(err) != rest.ReasonOwnedByFile {
		e.Errorf("deleting what a file declares: %v", err)
	}
	_, _, err := e.c.Release(e.Context(), "q")
	e.must(nil, err)
	if err := e.c.DeleteConnector(e.Context(), "q:gen"); client.Reason(err) != rest.ReasonPipelineRunning {
		e.Errorf("deleting a connector of what runs: %v", err)
	}
	e.must(nil, e.c.StopPipeline(e.Context(), "q", client.NoWait()))
	e.must(nil, e.c.DeleteConnector(e.Context(), "q:gen"))
}

// agent performs the remaining requests to the agent.
func (e *everything) agent() {
	e.must(e.c.Pipelines(e.Context()))
	e.must(e.c.Plugins(e.Context()))
	e.must(e.c.ProcessorPlugins(e.Context()))
	e.must(e.c.Files(e.Context()))
	e.must(e.c.Events(e.Context(), -1, 10))
	e.must(e.c.Info(e.Context()))
	e.must(e.c.Ready(e.Context()))
	e.must(nil, e.c.Healthy(e.Context()))
	if _, err := e.c.Metrics(e.Context()); client.Reason(err) != rest.ReasonNotFound {
		e.Errorf("metrics there are none: %v", err)
	}
	_, _, err := e.c.Pipeline(e.Context(), "p")
	var refused *client.Error
	if !errors.As(err, &refused) || refused.HTTP != 404 || refused.Code != 5 ||
		refused.Reason != rest.ReasonPipelineNotFound || refused.Metadata["suggestion"] == "" {
		e.Errorf("%#v", err)
	}
}

func rec(n int) record.Record {
	return record.Record{Position: record.Position(fmt.Sprint(n)), Operation: record.OperationCreate,
		Metadata: record.NewMetadata(map[string]string{"n": fmt.Sprint(n % 2)}),
		After:    record.Structured(map[string]any{"n": n})}
}

// TestInspect checks that a session sees passing records, in order, over a restart of the pipeline, that filters
// select, and that the session ends with the server.
func TestInspect(t *testing.T) {
	w := newWorld(t)
	w.fromFile("a.yaml", pipelineOf("a", spec.StatusRunning))
	s := newServer(w)
	c, stop := serve(t, s)
	all, odd := make(chan client.Message, 100), make(chan client.Message, 100)
	ended := make(chan error, 2)
	inspect := func(into chan client.Message, filters ...string) {
		ended <- c.Inspect(t.Context(), "a:gen", filters, func(m client.Message) error { into <- m; return nil })
	}
	go inspect(all)
	go inspect(odd, "operation=create", "metadata.n=1")
	wait.For(t, "both sessions are open", func() bool { return s.Stats().Sessions["a:gen"] == 2 })
	if n := w.watched("a:gen"); n != 1 {
		t.Errorf("%d observers for two sessions, want one", n)
	}
	for i := range 10 {
		w.pass("a:gen", rec(i))
	}
	for i := range 10 {
		var r struct{ Position []byte }
		if err := json.Unmarshal((<-all).Result, &r); err != nil || string(r.Position) != fmt.Sprint(i) {
			t.Errorf("record %d: %s %v", i, r.Position, err)
		}
	}
	for range 5 {
		if m := <-odd; !strings.Contains(string(m.Result), `"n":"1"`) {
			t.Errorf("%s passed the filter", m.Result)
		}
	}
	stop() // waiting for the clients would take an hour
	for range 2 {
		if err := <-ended; err != io.EOF {
			t.Errorf("session ended with %v, want io.EOF", err)
		}
	}
	wait.For(t, "there is no observer", func() bool { return w.watched("a:gen") == 0 })
}

// TestInspectDrops checks that a fast stream is sampled, that the number of dropped records is reported exactly, and
// that the pipeline is never held up.
func TestInspectDrops(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fromFile("a.yaml", pipelineOf("a", spec.StatusRunning))
	s := newServer(w)
	c, _ := serve(t, s)
	const total = 200_000
	done := errors.New("done")
	var seen, dropped uint64
	ended := make(chan error, 1)
	go func() {
		ended <- c.Inspect(t.Context(), "a:gen", nil, func(m client.Message) error {
			dropped += m.Dropped
			if m.Result != nil {
				seen++
			}
			if strings.Contains(string(m.Result), `{"n":-1}`) {
				return done
			}
			return nil
		})
	}()
	wait.For(t, "the session is open", func() bool { return s.Stats().Sessions["a:gen"] == 1 })
	for n := 0; n < total; n += 1000 {
		batch := make([]record.Record, 1000)
		for i := range batch {
			batch[i] = rec(n + i)
		}
		w.pass("a:gen", batch...)
	}
	passed := uint64(total)
	wait.For(t, "there are tokens again and the session receives the count", func() bool {
		w.pass("a:gen", rec(-1))
		passed++
		return len(ended) == 1
	})
	if err := <-ended; err != done {
		t.Fatal(err)
	}
	if dropped == 0 || seen < 100 {
		t.Errorf("saw %d and missed %d of %d", seen, dropped, total)
	}
	if seen+dropped > passed {
		t.Errorf("saw %d and missed %d of %d: more than passed", seen, dropped, passed)
	}
}

func TestInspectLines(t *testing.T) {
	w := newWorld(t)
	w.fromFile("a.yaml", pipelineOf("a", spec.StatusRunning))
	s := newServer(w)
	c, _ := serve(t, s)
	server := httptest.NewServer(nil)
	defer server.Close()
	response, err := server.Client().Get(c.URL + "/v1/connectors/a:out/inspect")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	large := record.Record{Position: record.Position("p"), After: record.Raw([]byte(strings.Repeat("x", 1<<20)))}
	w.pass("a:out", large)
	var m client.Message
	if err := json.NewDecoder(response.Body).Decode(&m); err != nil || len(m.Result) < 1<<20 {
		t.Errorf("%d bytes: %v", len(m.Result), err)
	}
}

func TestEventStream(t *testing.T) {
	w := newWorld(t)
	happen := func(reason string) {
		err := w.ApplyIf(t.Context(), &spec.Changes{Events: []spec.Event{{Type: "normal", Reason: reason}}}, nil)
		if err != nil {
			t.Error(err)
		}
	}
	happen("Old")
	c, stop := serve(t, newServer(w))
	got := make(chan string, 10)
	ended := make(chan error, 1)
	go func() {
		ended <- c.WatchEvents(t.Context(), 0, func(e spec.Event) error { got <- e.Reason; return nil })
	}()
	if first := <-got; first != "Old" {
		t.Errorf("first event is %s", first)
	}
	happen("New")
	if second := <-got; second != "New" {
		t.Errorf("second event is %s", second)
	}
	stop() // waiting for the clients would take an hour
	if err := <-ended; err != io.EOF {
		t.Errorf("stream ended with %v", err)
	}
}

func TestReload(t *testing.T) {
	w := newWorld(t)
	w.files = []spec.FileState{{Path: "orders.yaml", Pipelines: []string{"orders"}}}
	s := newServer(w)
	c, _ := serve(t, s)
	if _, err := c.Reload(t.Context(), false); client.Reason(err) != rest.ReasonNotFound {
		t.Errorf("where it cannot be asked for: %v", err)
	}

	var asked []bool
	var failure error
	s = newServer(w)
	s.Reload = func(_ context.Context, prune bool) error { asked = append(asked, prune); return failure }
	c, _ = serve(t, s)
	files, err := c.Reload(t.Context(), true)
	if err != nil || len(files) != 1 || files[0].Path != "orders.yaml" || len(asked) != 1 || !asked[0] {
		t.Errorf("got %v, %v, asked %v", files, err, asked)
	}
	failure = errors.New("no such directory")
	if _, err := c.Reload(t.Context(), false); client.Reason(err) != rest.ReasonUnavailable ||
		!strings.Contains(err.Error(), "no such directory") {
		t.Errorf("failed with %v", err)
	}
}

// TestInspectShows checks that a session sees records as Show makes them.
func TestInspectShows(t *testing.T) {
	w := newWorld(t)
	w.fromFile("a.yaml", pipelineOf("a", spec.StatusRunning))
	s := newServer(w)
	s.Show = func(r *record.Record) { r.After = record.Structured(map[string]any{"shown": true}) }
	c, stop := serve(t, s)
	defer stop()
	got := make(chan client.Message, 1)
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		ended <- c.Inspect(ctx, "a:gen", nil, func(m client.Message) error { got <- m; return nil })
	}()
	wait.For(t, "the session is open", func() bool { return s.Stats().Sessions["a:gen"] == 1 })
	passed := rec(1)
	w.pass("a:gen", passed)
	if m := <-got; !strings.Contains(string(m.Result), `"shown":true`) {
		t.Errorf("shown is %s", m.Result)
	}
	if m, _ := passed.After.Structured(); m["shown"] != nil {
		t.Error("the record that passes is changed")
	}
	cancel()
	<-ended
}

func TestPlan(t *testing.T) {
	w := newWorld(t)
	s := newServer(w)
	c, _ := serve(t, s)
	if _, err := c.Plan(t.Context()); client.Reason(err) != rest.ReasonNotFound {
		t.Errorf("where it cannot be asked for: %v", err)
	}

	s = newServer(w)
	s.Tokens = withTokens("read", "admin")
	var asked []spec.PlanRequest
	var failure error
	s.Plan = func(_ context.Context, r spec.PlanRequest) (*spec.Plan, error) {
		asked = append(asked, r)
		return &spec.Plan{Files: 7}, failure
	}
	c, _ = serve(t, s)
	request := spec.PlanRequest{Files: []spec.PlanFile{{Path: "a.yaml", Content: "pipelines: []"}}, Replace: true}
	if plan, err := c.PlanFiles(t.Context(), request); err != nil || plan.Files != 7 ||
		!reflect.DeepEqual(asked, []spec.PlanRequest{request}) {
		t.Errorf("got %+v, %v, asked %+v", plan, err, asked)
	}
	failure = rest.Errorf(rest.InvalidArgument, spec.CodeInvalid, "no")
	if _, err := c.PlanFiles(t.Context(), request); client.Reason(err) != spec.CodeInvalid {
		t.Errorf("refused with %v", err)
	}
	failure = errors.New("no such directory")
	if _, err := c.Plan(t.Context()); client.Reason(err) != rest.ReasonUnavailable ||
		!strings.Contains(err.Error(), "no such directory") {
		t.Errorf("failed with %v", err)
	}

	// A plan of files that do not exist reveals the agent's read access.
	failure, c.Token = nil, "read"
	if _, err := c.Plan(t.Context()); err != nil {
		t.Errorf("reading: %v", err)
	}
	if _, err := c.PlanFiles(t.Context(), request); client.Reason(err) != rest.ReasonForbidden {
		t.Errorf("PlanFiles with the read token: %v", err)
	}
}

// TestRatesAreInTheStatus checks that a status has the rates of that pipeline only; a list has no series.
func TestRatesAreInTheStatus(t *testing.T) {
	w := newWorld(t)
	w.fromFile("a.yaml", pipelineOf("a", spec.StatusRunning))
	w.fromFile("b.yaml", pipelineOf("b", spec.StatusStopped))
	s := newServer(w)
	s.Rates = func() []spec.PipelineRates {
		return []spec.PipelineRates{{ID: "a", Records: 12.5, Series: []float64{12, 13},
			Stages: map[string]spec.StageRates{"a:gen": {Records: 0.5}}}}
	}
	c, _ := serve(t, s)
	all, err := c.Statuses(t.Context())
	if err != nil || len(all) != 2 || all[0].Rates == nil || all[0].Rates.Records != 12.5 ||
		all[0].Rates.Series != nil || all[1].Rates != nil {
		t.Errorf("%+v %v", all, err)
	}
	one, err := c.Status(t.Context(), "a")
	if err != nil || one.Rates == nil || len(one.Rates.Series) != 2 || one.Rates.Stages["a:gen"].Records != 0.5 {
		t.Errorf("%+v %v", one, err)
	}
}
