package agenttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/spec"
)

// Web is an agent under test, with a client for the API.
type Web struct {
	*Agent
	T   testing.TB
	API *client.Client
}

// StartWeb starts an agent like Start, and returns it with a client.
func StartWeb(t testing.TB, dir string, change ...func(*config.Config)) *Web {
	t.Helper()
	return StartWiredWeb(t, dir, func(*agent.Agent) {}, change...)
}

// StartWiredWeb is StartWeb for an agent whose parts are changed by wired before they run.
func StartWiredWeb(t testing.TB, dir string, wired func(*agent.Agent), change ...func(*config.Config)) *Web {
	t.Helper()
	a := StartWired(t, dir, wired, change...)
	return &Web{Agent: a, T: t,
		API: &client.Client{URL: "http://" + a.Address(), HTTP: &http.Client{Transport: answering}}}
}

// answering is a transport that waits no longer for the headers of a response than a test for a condition.
var answering = func() *http.Transport {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = wait.Limit
	return transport
}()

// Answer is the response to a request.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Reason returns the reason of an error, and the field that it refers to.
func (a *Answer) Reason() (reason, field string) {
	var e struct {
		Details []struct {
			Reason   string
			Metadata map[string]string
		}
	}
	if json.Unmarshal([]byte(a.Body), &e) != nil || len(e.Details) == 0 {
		return "", ""
	}
	return e.Details[0].Reason, e.Details[0].Metadata["configPath"]
}

// Do sends a request with a JSON body, "" for none. headers are names and values, including Host; an empty value
// removes the header.
func (w *Web) Do(method, path, body string, headers ...string) *Answer {
	w.T.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	request, err := http.NewRequestWithContext(w.T.Context(), method, w.API.URL+path, r)
	if err != nil {
		w.T.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		switch name, value := headers[i], headers[i+1]; {
		case name == "Host":
			request.Host = value
		case value == "":
			request.Header.Del(name)
		default:
			request.Header.Set(name, value)
		}
	}
	response, err := answering.RoundTrip(request)
	if err != nil {
		w.T.Fatalf("%s %s: %v", method, path, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		w.T.Fatalf("%s %s: %v", method, path, err)
	}
	return &Answer{response.StatusCode, response.Header, string(text)}
}

// Must sends a request, which must succeed, and decodes its answer into out unless out is nil.
func (w *Web) Must(method, path, body string, out any) {
	w.T.Helper()
	got := w.Do(method, path, body)
	if got.Status != http.StatusOK {
		w.T.Fatalf("%s %s: %d %s", method, path, got.Status, got.Body)
	}
	if out == nil {
		return
	}
	if err := json.Unmarshal([]byte(got.Body), out); err != nil {
		w.T.Fatalf("%s %s: %v in %s", method, path, err, got.Body)
	}
}

var errSeen = errors.New("seen")

// Records inspects a connector over WebSocket until n records have passed.
func (w *Web) Records(connector string, n int) (all []json.RawMessage) {
	w.T.Helper()
	ctx, cancel := context.WithTimeout(w.T.Context(), wait.Limit)
	defer cancel()
	err := w.API.Inspect(ctx, connector, nil, func(m client.Message) error {
		if m.Result != nil {
			all = append(all, m.Result)
		}
		if len(all) == n {
			return errSeen
		}
		return nil
	})
	if !errors.Is(err, errSeen) {
		w.T.Fatalf("inspecting %s ended after %d records: %v", connector, len(all), err)
	}
	return all
}

// DeadLetters returns the dead letters of the pipeline p, newest first.
func (w *Web) DeadLetters() []spec.DeadLetter {
	w.T.Helper()
	page, err := w.API.DeadLetters(w.T.Context(), "p", spec.DeadLetterFilter{}, 0, 1000)
	if err != nil {
		w.T.Fatal(err)
	}
	return page.DeadLetters
}

// Document is the document of pipeline id, which writes generated records to a file with this name.
func (w *Web) Document(id, file string, rate int) rest.PipelineDocument {
	return rest.PipelineDocument{ID: id, Connectors: []rest.ConnectorDocument{
		{ID: "src", Type: spec.TypeSource, Plugin: "builtin:generator",
			Settings: map[string]string{"rate": fmt.Sprint(rate), "format.type": "structured",
				"format.options.n": "int"}},
		{ID: "dst", Type: spec.TypeDestination, Plugin: "builtin:file",
			Settings: map[string]string{"path": w.Path(file)}}}}
}

// Apply plans a document and applies the plan.
func (w *Web) Apply(doc rest.PipelineDocument) rest.DocumentDiff {
	w.T.Helper()
	plan, err := w.API.PlanDocument(w.T.Context(), doc)
	if err != nil {
		w.T.Fatal(err)
	}
	done, err := w.API.ApplyDocument(w.T.Context(), doc, plan.Hash)
	if err != nil || done.Hash != plan.Hash {
		w.T.Fatalf("planned %+v, applied %+v: %v", plan, done, err)
	}
	return done
}

// GenerateOverAPI creates pipeline id, which generates records, over the API, and starts it.
func (w *Web) GenerateOverAPI(id string) {
	w.T.Helper()
	w.Must("POST", "/v1/pipelines", fmt.Sprintf(`{"id":%[1]q,"config":{"name":%[1]q}}`, id), nil)
	w.Must("POST", "/v1/connectors",
		fmt.Sprintf(`{"id":"src","type":"TYPE_SOURCE","plugin":"builtin:generator","pipelineId":%q,
		"config":{"settings":{"rate":"1000","format.type":"structured","format.options.n":"int"}}}`, id), nil)
	w.Must("POST", "/v1/connectors",
		fmt.Sprintf(`{"id":"dst","type":"TYPE_DESTINATION","plugin":"builtin:file","pipelineId":%q,
		"config":{"settings":{"path":"%s/%s.jsonl"}}}`, id, w.Dir, id), nil)
	w.Must("POST", "/v1/pipelines/"+id+"/start", "", nil)
}

// More waits for more records of the pipeline.
func (w *Web) More(t *testing.T, id string) {
	t.Helper()
	before := LinesIn(t, w.Path(id+".jsonl"))
	w.Wait("more records of "+id, func() bool { return LinesIn(t, w.Path(id+".jsonl")) > before })
}
