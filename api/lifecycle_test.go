package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/spec"
)

// A request with an invalid parameter has no effect.
func TestWrongParametersDoNothing(t *testing.T) {
	for _, request := range []struct {
		status spec.Status
		what   string
	}{
		{spec.StatusStopped, "POST /v1/pipelines/p/start?wait=abc"},
		{spec.StatusRunning, "POST /v1/pipelines/p/stop?wait=abc"},
		{spec.StatusRunning, "POST /v1/pipelines/p/restart?wait=-1"},
		{spec.StatusStopped, "DELETE /v1/pipelines/empty?wait=11m"},
		{spec.StatusStopped, "DELETE /v1/connectors/p:gen?wait=abc"},
		{spec.StatusStopped, "DELETE /v1/connectors/p:gen?live=maybe"},
		{spec.StatusStopped, "POST /v1/pipelines/import?live=maybe"},
	} {
		w := newWorld(t)
		w.fromAPI(pipelineOf("p", request.status))
		w.fromAPI(spec.Pipeline{ID: "empty", Name: "empty", Status: spec.StatusStopped})
		h := newServer(w).Handler()
		method, path, _ := strings.Cut(request.what, " ")
		body, media := "", ""
		if strings.Contains(path, "import") {
			body, media = string(spec.Marshal(pipelineOf("new", spec.StatusStopped))), "application/yaml"
		}
		before, since := w.revisions(), w.states["p"].Since
		got := do(h, method, path, body, "Content-Type", media)
		if e := rest.ParseError(got.status, got.body); got.status != 400 || e.Reason != spec.CodeInvalid ||
			e.Metadata["configPath"] == "" {
			t.Errorf("%s: %d %s", request.what, got.status, got.body)
		}
		if w.revisions() != before || w.declared["empty"] == nil || !w.states["p"].Since.Equal(since) {
			t.Errorf("%s was done", request.what)
		}
	}
}

func (w *world) revisions() (n int) {
	for _, all := range w.history {
		n += len(all)
	}
	return n
}

// fromAPI declares a pipeline as the API does.
func (w *world) fromAPI(p spec.Pipeline) {
	spec.Normalize(&p)
	err := w.ApplyIf(context.Background(),
		&spec.Changes{Declare: []spec.Declare{{Pipeline: p, Owner: spec.Owner{Kind: spec.OwnerAPI}}}}, nil)
	if err != nil {
		w.t.Fatal(err)
	}
}

// A running pipeline changes only on explicit request.
func TestRunningPipelinesAreNotChangedByAccident(t *testing.T) {
	file := string(spec.Marshal(pipelineOf("p", spec.StatusRunning)))
	other := strings.Replace(file, "status: running", "status: stopped", 1)
	for _, request := range []struct {
		method, path, body, media string
		allowed                   bool // in any case
	}{
		{"PUT", "/v1/connectors/p:gen", `{"config":{"settings":{"rate":"2"}}}`, "application/json", false},
		{"POST", "/v1/pipelines/import", other, "application/yaml", false},
		{"POST", "/v1/pipelines/import", file, "application/yaml", true},
		{"POST", "/v1/pipelines/p/rollback", `{"revision":1}`, "application/json", false},
	} {
		for parameter, allowed := range map[string]bool{"": false, "?live=false": false, "?live=0": false,
			"?live": true, "?live=true": true} {
			w := newWorld(t)
			w.fromAPI(pipelineOf("p", spec.StatusRunning))
			got := do(newServer(w).Handler(), request.method, request.path+parameter, request.body, "Content-Type",
				request.media)
			if allowed = allowed || request.allowed; (got.status == 200) != allowed || !allowed &&
				got.reason() != rest.ReasonPipelineRunning {
				t.Errorf("%s %s%s: %d %s", request.method, request.path, parameter, got.status, got.body)
			}
		}
	}
}

// Going back to a revision neither starts nor stops anything.
func TestRollbackKeepsTheStatus(t *testing.T) {
	w := newWorld(t)
	w.fromAPI(pipelineOf("p", spec.StatusStopped))
	h := newServer(w).Handler()
	do(h, "POST", "/v1/pipelines/p/start", "")
	do(h, "PUT", "/v1/connectors/p:gen?live", `{"config":{"settings":{"rate":"2"}}}`)
	back := func(revision, want string) {
		t.Helper()
		got := do(h, "POST", "/v1/pipelines/p/rollback?live", `{"revision":`+revision+`}`)
		if d := w.declared["p"]; got.status != 200 || string(d.Pipeline.Status) != want ||
			d.Pipeline.Connectors[0].Settings["rate"] != "1" {
			t.Errorf("%d %s: %+v, want it %s", got.status, got.body, d.Pipeline, want)
		}
	}
	back("1", "running")
	do(h, "POST", "/v1/pipelines/p/stop", "")
	back("2", "stopped")
}

// A client need not wait for the clean-up of a connector, and a client that waits learns of its failure.
func TestCleanUpOfConnectors(t *testing.T) {
	w := newWorld(t)
	w.fromAPI(pipelineOf("p", spec.StatusStopped))
	h := newServer(w).Handler()
	cleaning := make(chan error)
	w.cleanUp = func() error { return <-cleaning }
	if got := do(h, "DELETE", "/v1/connectors/p:gen?wait=0", ""); got.status != 200 {
		t.Errorf("without waiting: %d %s", got.status, got.body)
	}
	cleaning <- nil
	wait.For(t, "the clean-up", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.cleaned) == 1 })
	if got := do(h, "DELETE", "/v1/connectors/p:out?wait=10ms", ""); got.status != http.StatusGatewayTimeout {
		t.Errorf("a clean-up that takes long: %d %s", got.status, got.body)
	}
	cleaning <- nil
	w.fromAPI(pipelineOf("q", spec.StatusStopped))
	go func() { cleaning <- errors.New("it hurts") }()
	if got := do(h, "DELETE", "/v1/connectors/q:out", ""); got.reason() != rest.ReasonConnectorCleanUp ||
		!strings.Contains(string(got.body), "it hurts") {
		t.Errorf("a clean-up that fails: %d %s", got.status, got.body)
	}
}

// An operation that is impossible now is a conflict, which a client may retry, and no fault of the agent.
func TestBusy(t *testing.T) {
	w := newWorld(t)
	w.fromAPI(pipelineOf("p", spec.StatusStopped))
	w.fromFile("q.yaml", pipelineOf("q", spec.StatusRunning))
	h := newServer(w).Handler()
	w.cleanUp = func() error { return fmt.Errorf("it is being done: %w", spec.ErrBusy) }
	got := do(h, "DELETE", "/v1/connectors/p:gen", "")
	if got.status != http.StatusConflict || got.reason() != rest.ReasonConnectorCleaning ||
		got.header.Get("Retry-After") == "" {
		t.Errorf("a clean-up that is being done: %d %s", got.status, got.body)
	}
	w.cleanUp = func() error { return errors.New("the slot is active") }
	got = do(h, "DELETE", "/v1/connectors/p:out", "")
	if got.status != http.StatusConflict || got.reason() != rest.ReasonConnectorCleanUp ||
		!strings.Contains(string(got.body), "the slot is active") {
		t.Errorf("a clean-up that fails: %d %s", got.status, got.body)
	}
	for err, want := range map[error]int{fmt.Errorf("not known yet: %w", spec.ErrBusy): 409,
		fmt.Errorf("x: %w", spec.ErrConflict): 409, fmt.Errorf("x: %w", spec.ErrNotFound): 404, errors.New("x"): 500} {
		w.restartErr = err
		if got := do(h, "POST", "/v1/pipelines/q/restart", ""); got.status != want {
			t.Errorf("%v: %d %s, want %d", err, got.status, got.body, want)
		}
	}
}

// A request that waits for a pipeline to start or stop is answered at once when another request reverses it.
func TestOverruled(t *testing.T) {
	for _, action := range []struct {
		status         spec.Status
		path, opposite string
	}{{spec.StatusStopped, "start", "stop"}, {spec.StatusRunning, "stop", "start"},
		{spec.StatusRunning, "restart", "stop"}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.fromFile("a.yaml", pipelineOf("a", action.status))
			h := newServer(w).Handler()
			w.frozen = true
			answered := make(chan call, 1)
			began := time.Now()
			go func() { answered <- do(h, "POST", "/v1/pipelines/a/"+action.path, "") }()
			synctest.Wait()
			if got := do(h, "POST", "/v1/pipelines/a/"+action.opposite+"?wait=0", ""); got.status != 200 {
				t.Fatalf("%s: %d %s", action.opposite, got.status, got.body)
			}
			got := <-answered
			if took := time.Since(began); got.status != http.StatusConflict ||
				got.reason() != rest.ReasonPipelineOverruled || took > 2*time.Second {
				t.Errorf("%s: after %v %d %s", action.path, took, got.status, got.body)
			}
		})
	}
}

// A restart answers as soon as it is known that the declared version failed, and which version runs instead.
func TestRestartThatFails(t *testing.T) {
	for running, want := range map[int64]string{
		1: `cannot start generation 2 of pipeline \"a\", and generation 1 runs instead: no such table`,
		2: `cannot restart pipeline \"a\", and its current run continues: no such table`,
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.fromFile("a.yaml", pipelineOf("a", spec.StatusRunning))
			h := newServer(w).Handler()
			w.frozen = true
			s, _ := w.State("a")
			time.Sleep(time.Minute) // virtual time: it has run for a while
			answered, began := make(chan call, 1), time.Now()
			go func() { answered <- do(h, "POST", "/v1/pipelines/a/restart", "") }()
			time.Sleep(time.Second)
			w.mu.Lock()
			s.RunningGeneration = running
			s.LastAttempt = &spec.Attempt{Generation: 2, At: time.Now(), Error: "no such table"}
			w.states["a"] = s
			w.mu.Unlock()
			got := <-answered
			if took := time.Since(began); got.status != http.StatusBadRequest || took > 2*time.Second ||
				got.reason() != rest.ReasonPipelineStartFailed || !strings.Contains(string(got.body), want) {
				t.Errorf("after %v %d %s, want %s", took, got.status, got.body, want)
			}
		})
	}
}

// Requests that start a pipeline examine failed plugin files again before.
func TestRetryOfPlugins(t *testing.T) {
	w := newWorld(t)
	w.fromFile("a.yaml", pipelineOf("a", spec.StatusStopped))
	s, retries := newServer(w), 0
	s.RetryPlugins = func() { retries++ }
	h := s.Handler()
	for i, action := range []string{"start", "restart", "stop"} {
		if got := do(h, "POST", "/v1/pipelines/a/"+action, ""); got.status != http.StatusOK || retries != min(i+1, 2) {
			t.Errorf("%s: %d %s, %d retries", action, got.status, got.body, retries)
		}
	}
}

// A pipeline that is started before its stop has begun keeps running, as requested.
func TestStartBeforeTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.fromFile("a.yaml", pipelineOf("a", spec.StatusRunning))
		h := newServer(w).Handler()
		w.frozen = true
		time.Sleep(time.Minute) // virtual time: it has run for a while
		if got := do(h, "POST", "/v1/pipelines/a/stop?wait=0", ""); got.status != 200 {
			t.Fatalf("stop: %d %s", got.status, got.body)
		}
		if got := do(h, "POST", "/v1/pipelines/a/start", ""); got.status != 200 {
			t.Errorf("start: %d %s", got.status, got.body)
		}
	})
}

// An update keeps the fields that a client leaves out, as it may not know them.
func TestWhatIsLeftOutOfProcessors(t *testing.T) {
	w := newWorld(t)
	p := pipelineOf("p", spec.StatusStopped)
	p.Processors = []spec.Processor{{ID: "m", Plugin: "field.set", Condition: "{{ true }}", Workers: 3}}
	w.fromAPI(p)
	h := newServer(w).Handler()
	for _, c := range []struct {
		body string
		want spec.Processor
	}{
		{`{"plugin":"field.set","config":{"settings":{"field":"a"}}}`,
			spec.Processor{Plugin: "field.set", Condition: "{{ true }}", Workers: 3}},
		{`{"type":"filter","config":{"workers":2}}`,
			spec.Processor{Plugin: "filter", Condition: "{{ true }}", Workers: 2}},
		{`{"condition":"","config":{}}`, spec.Processor{Plugin: "filter", Workers: 2}},
	} {
		got := do(h, "PUT", "/v1/processors/p:m", c.body)
		have := w.declared["p"].Pipeline.Processors[0]
		if got.status != 200 || have.Plugin != c.want.Plugin || have.Condition != c.want.Condition ||
			have.Workers != c.want.Workers {
			t.Errorf("%s: %d %s: %+v", c.body, got.status, got.body, have)
		}
	}
}

// A field left out of a dead-letter queue has the same meaning as in a pipeline file.
func TestDeadLetterQueueDefaults(t *testing.T) {
	w := newWorld(t)
	w.fromAPI(pipelineOf("p", spec.StatusStopped))
	h := newServer(w).Handler()
	standard := w.declared["p"].Pipeline.DeadLetterQueue
	file := spec.DeadLetterQueue{Plugin: "builtin:file", Settings: map[string]string{"path": "/tmp/dlq"}, WindowSize: 1}
	for _, c := range []struct {
		body string
		want spec.DeadLetterQueue
	}{
		{`{"plugin":"builtin:file","settings":{"path":"/tmp/dlq"}}`, file},
		{`{}`, standard},
		{`{"windowSize":null}`, standard},
		{`{"settings":{"level":"warn"}}`, spec.DeadLetterQueue{Plugin: "builtin:log",
			Settings: map[string]string{"level": "warn"}, WindowSize: 1}},
		{`{"plugin":"builtin:log","windowSize":"0"}`, spec.DeadLetterQueue{Plugin: "builtin:log",
			Settings: standard.Settings}},
	} {
		got := do(h, "PUT", "/v1/pipelines/p/dead-letter-queue", c.body)
		if have := w.declared["p"].Pipeline.DeadLetterQueue; got.status != 200 || !reflect.DeepEqual(have, c.want) {
			t.Errorf("%s: %d %s: %+v, want %+v", c.body, got.status, got.body, have, c.want)
		}
	}
	if got := do(h, "PUT", "/v1/pipelines/p/dead-letter-queue",
		`{"windowSize":-1}`); !strings.Contains(string(got.body), "windowSize must be a non-negative integer") {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// The answer to a write contains the resulting generation.
func TestWritesAnswerWithTheirGeneration(t *testing.T) {
	w := newWorld(t)
	h := newServer(w).Handler()
	last := ""
	for _, request := range []string{
		`POST /v1/pipelines {"id":"p","config":{"name":"p"}}`,
		`POST /v1/connectors {"id":"gen","type":"TYPE_SOURCE","plugin":"generator","pipelineId":"p"}`,
		`POST /v1/connectors {"id":"out","type":"TYPE_DESTINATION","plugin":"log","pipelineId":"p"}`,
		`POST /v1/processors {"id":"m","plugin":"field.set","parent":{"type":"TYPE_PIPELINE","id":"p"}}`,
		`PUT /v1/processors/p:m {"plugin":"filter","config":{}}`,
		`DELETE /v1/processors/p:m `,
		`PUT /v1/pipelines/p/dead-letter-queue {"windowSize":"3"}`,
		`POST /v1/pipelines/p/start `,
		`PUT /v1/connectors/p:gen?live {"config":{"settings":{"rate":"2"}}}`,
		`POST /v1/pipelines/p/rollback?live {"revision":3}`,
		`POST /v1/pipelines/p/stop `,
		`POST /v1/pipelines/import {"pipelines":[{"id":"p","status":"stopped"}]}`,
	} {
		method, target, _ := strings.Cut(request, " ")
		path, body, _ := strings.Cut(target, " ")
		got := do(h, method, path, body)
		generation := got.header.Get(rest.HeaderGeneration)
		if want := fmt.Sprint(w.declared["p"].Generation); got.status != 200 || generation != want ||
			generation == last {
			t.Errorf("%s: %d %s: has generation %q after %q, want %q", request, got.status, got.body, generation, last,
				want)
		}
		last = generation
	}
	two := string(spec.Marshal(pipelineOf("p", spec.StatusStopped), pipelineOf("q", spec.StatusStopped)))
	got := do(h, "POST", "/v1/pipelines/import", two, "Content-Type", "application/yaml", "Idempotency-Key", "k")
	again := do(h, "POST", "/v1/pipelines/import", two, "Content-Type", "application/yaml", "Idempotency-Key", "k")
	for _, answer := range []call{got, again} {
		if generations := answer.header.Values(rest.HeaderGeneration); len(generations) != 2 || generations[1] != "1" {
			t.Errorf("two pipelines: generations %v", generations)
		}
	}
	c, _ := serve(t, newServer(w))
	var generation int64
	if _, _, err := c.UpdateConnector(t.Context(), "p:gen", "", rest.ConnectorConfig{},
		client.Generation(&generation)); err != nil || generation != w.declared["p"].Generation {
		t.Errorf("the client says %d: %v", generation, err)
	}
}

// Actions with an outdated ETag are refused, too.
func TestActionsOnWhatIsAsItWas(t *testing.T) {
	w := newWorld(t)
	w.fromFile("p.yaml", pipelineOf("p", spec.StatusRunning))
	h := newServer(w).Handler()
	etag := do(h, "GET", "/v1/pipelines/p", "").header.Get("ETag")
	for _, action := range []string{"restart", "stop", "start"} {
		if got := do(h, "POST", "/v1/pipelines/p/"+action, "", "If-Match", `"other"`); got.status != 412 {
			t.Errorf("%s of another: %d %s", action, got.status, got.body)
		}
		if got := do(h, "POST", "/v1/pipelines/p/"+action, "", "If-Match", etag); got.status != 200 {
			t.Errorf("%s: %d %s", action, got.status, got.body)
		}
	}
}

// The advice about deleting from a running pipeline works.
func TestAdviceAboutDeleting(t *testing.T) {
	w := newWorld(t)
	w.fromAPI(pipelineOf("p", spec.StatusRunning))
	h := newServer(w).Handler()
	for _, path := range []string{"/v1/pipelines/p", "/v1/connectors/p:gen", "/v1/connectors/p:gen?live"} {
		got := do(h, "DELETE", path, "")
		advice := rest.ParseError(got.status, got.body).Metadata["suggestion"]
		if got.reason() != rest.ReasonPipelineRunning || strings.Contains(advice, "live") ||
			!strings.Contains(advice, "stop") {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	do(h, "POST", "/v1/connectors?live", `{"id":"gen2","type":"TYPE_SOURCE","plugin":"generator","pipelineId":"p"}`)
	if got := do(h, "DELETE", "/v1/connectors/p:gen?live", ""); got.status != 200 {
		t.Errorf("one of two: %d %s", got.status, got.body)
	}
}
