package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/effort"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/spec"
)

// operation is one of the OpenAPI document.
type operation struct {
	method, path string
	Parameters   []struct{ Name, In, Example string }
	RequestBody  struct {
		Content map[string]struct{ Example json.RawMessage }
	}
	Streaming bool `json:"x-streaming"`
}

func operations(w *web) (all []operation) {
	var document struct {
		Paths map[string]map[string]operation
	}
	w.must("GET", "/openapi/openapi.json", "", &document)
	for _, path := range slices.Sorted(maps.Keys(document.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(document.Paths[path])) {
			o := document.Paths[path][method]
			o.method, o.path = strings.ToUpper(method), path
			all = append(all, o)
		}
	}
	return all
}

// odd are values that programs mistake for something else.
var odd = []string{"", "0", "-1", "1e9", "true", "null", "a", "p", "p:src", "q:dst", "..", "%2e%2e%2f", "%00", "%0d%0a", "%", "'--", "<b>", "${HOME}", "${file:/etc/passwd}",
	"*", "***", "(", "ü", "\u202e", "9223372036854775808", "builtin:generator", "TYPE_SOURCE", strings.Repeat("x", 300), "operation=create", "metadata.=", "10s", "x y"}

// oddJSON are values where others are expected.
var oddJSON = []string{"null", "0", "-1", "1e400", "true", `""`, `"***"`, "[]", "{}", `[{}]`, `{"":""}`, `"\u0000"`, `"\ud800"`, `"${X:-y}"`, "18446744073709551616", `{"a":{"a":{"a":[[[]]]}}}`}

type generator struct{ *rand.Rand }

func (g generator) pick(from []string) string { return from[g.IntN(len(from))] }

// request makes a request for o that is a little wrong, or right.
func (g generator) request(base string, o *operation) *http.Request {
	path, query := o.path, []string{}
	headers := http.Header{}
	for _, p := range o.Parameters {
		value := p.Example
		if g.IntN(3) > 0 || value == "" {
			value = g.pick(odd)
		}
		switch {
		case p.In == "path":
			if !strings.HasPrefix(value, "%") || len(value) < 2 {
				value = strings.NewReplacer("%", "%25", " ", "%20", "<", "%3c", ">", "%3e", "\u202e", "%e2%80%ae", "ü", "%c3%bc").Replace(value)
			}
			path = strings.Replace(path, "{"+p.Name+"}", value, 1)
		case p.Name == "wait": // for no time
			query = append(query, "wait=0")
		case g.IntN(3) > 0:
		case p.In == "query":
			query = append(query, p.Name+"="+strings.ReplaceAll(value, " ", "+"))
		default:
			headers.Set(p.Name, value)
		}
	}
	body := g.body(o)
	r, err := http.NewRequest(o.method, base+path+"?"+strings.Join(query, "&"), bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	r.Header = headers
	if len(body) > 0 && g.IntN(20) > 0 {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// body is the example of o with some values replaced, or bytes changed.
func (g generator) body(o *operation) []byte {
	example := o.RequestBody.Content["application/json"].Example
	if len(example) == 0 || g.IntN(30) == 0 {
		return bytes.Repeat([]byte(g.pick(oddJSON)), g.IntN(2))
	}
	var v any
	if err := json.Unmarshal(example, &v); err != nil {
		panic(err)
	}
	text, err := json.Marshal(g.mutate(v))
	if err != nil {
		panic(err)
	}
	if g.IntN(10) == 0 {
		text[g.IntN(len(text))] = byte(g.IntN(256))
	}
	return text
}

// mutate returns v with a part replaced now and then.
func (g generator) mutate(v any) any {
	if g.IntN(12) == 0 {
		return json.RawMessage(strings.Replace(g.pick(oddJSON), "1e400", "1e300", 1))
	}
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) { // so that a seed says all
			if v[key] = g.mutate(v[key]); g.IntN(20) == 0 {
				delete(v, key)
			}
		}
		if g.IntN(20) == 0 {
			v[g.pick(odd)] = "x"
		}
	case []any:
		for i := range v {
			v[i] = g.mutate(v[i])
		}
	case string:
		if g.IntN(6) == 0 {
			return g.pick(odd)
		}
	}
	return v
}

// Whatever is asked, the agent answers with an error of its own words, and goes on.
// CONDUIT_API_FUZZ is the number of requests to each operation.
func TestAnyRequestIsAnswered(t *testing.T) {
	effort.Long(t)
	count, seed := 40, uint64(1)
	if s := os.Getenv("CONDUIT_API_FUZZ"); s != "" {
		var err error
		if count, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	dir := agenttest.NewDir(t)
	t.Chdir(dir) // where relative paths of made-up connectors lead
	w := startWeb(t, dir, func(c *config.Config) { c.Log.Level = "error" })
	w.Save("p.yaml", made(dir, "p", 100, ""))
	w.WaitPhase("p", spec.PhaseRunning, 1)
	w.must("POST", "/v1/pipelines", `{"id":"q","config":{"name":"q"}}`, nil)
	g, sent, statuses := generator{rand.New(rand.NewPCG(seed, 0))}, 0, map[int]int{}
	all := operations(w)
	for _, o := range all {
		for range count {
			r := g.request(w.api.URL, &o)
			status, body := exchange(t, r, o.Streaming)
			statuses[status]++
			sent++
			if status >= 500 && (status != http.StatusServiceUnavailable || o.path != "/readyz") &&
				(status != http.StatusNotImplemented || !strings.Contains(o.path, "/inspect-")) {
				t.Fatalf("seed %d: %s %s: %d %s", seed, r.Method, r.URL, status, body)
			}
			if status >= 400 && !bytes.Contains(body, []byte(`"code":`)) {
				t.Errorf("%s %s: %d %s", r.Method, r.URL, status, body)
			}
			if sent%100 == 0 {
				tidy(w)
			}
		}
	}
	t.Logf("%d requests to %d operations, statuses %v", sent, len(all), statuses)
	if len(all) < 30 {
		t.Errorf("only %d operations", len(all))
	}
	w.must("POST", "/v1/pipelines", `{"id":"after","config":{"name":"after"}}`, nil)
	w.must("GET", "/readyz", "", nil)
	if s := w.State("p"); s.Phase != spec.PhaseRunning {
		if got := w.do("POST", "/v1/pipelines/p/start", ""); got.status != http.StatusOK && !strings.Contains(got.body, "pipeline.running") {
			t.Errorf("the pipeline is %s: %d %s", s.Phase, got.status, got.body)
		}
	}
	w.more(t, "p")
}

// exchange returns the answer, of a stream that goes on only its status.
func exchange(t *testing.T, r *http.Request, streaming bool) (int, []byte) {
	t.Helper()
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	defer response.Body.Close()
	if streaming && response.StatusCode == http.StatusOK || strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		return response.StatusCode, nil
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	return response.StatusCode, body
}

// tidy deletes what requests made, so that there is not more and more of it.
func tidy(w *web) {
	w.t.Helper()
	all, err := w.api.Connectors(w.t.Context(), "")
	if err != nil {
		w.t.Fatal(err)
	}
	pipelines, err := w.api.Pipelines(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	if len(pipelines)+len(all) < 60 {
		return
	}
	for _, p := range pipelines {
		if p.ID != "p" {
			w.do("POST", "/v1/pipelines/"+p.ID+"/stop", "")
		}
	}
	for _, c := range all {
		w.do("DELETE", fmt.Sprintf("/v1/connectors/%s", c.ID), "")
	}
	for _, p := range pipelines {
		w.do("DELETE", "/v1/pipelines/"+p.ID, "")
	}
}
