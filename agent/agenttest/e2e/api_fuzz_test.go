package e2e_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/spec"
)

// odd are values that programs often misinterpret.
var odd = []string{"", "0", "-1", "1e9", "true", "null", "a", "p", "p:src", "q:dst", "..", "%2e%2e%2f", "%00", "%0d%0a",
	"%", "'--", "<b>", "${HOME}", "${file:/etc/passwd}",
	"*", "***", "(", "ü", "\u202e", "9223372036854775808", "builtin:generator", "TYPE_SOURCE", strings.Repeat("x", 300),
	"operation=create", "metadata.=", "10s", "x y"}

// oddJSON are JSON values of unexpected types.
var oddJSON = []string{"null", "0", "-1", "1e400", "true", `""`, `"***"`, "[]", "{}", `[{}]`, `{"":""}`, `"\u0000"`,
	`"\ud800"`, `"${X:-y}"`, "18446744073709551616", `{"a":{"a":{"a":[[[]]]}}}`}

type generator struct{ *rand.Rand }

func (g generator) pick(from []string) string { return from[g.IntN(len(from))] }

// request makes a valid or slightly invalid request for o.
func (g generator) request(base string, o *agenttest.Operation) *http.Request {
	path, query := o.Path, []string{}
	headers := http.Header{}
	for _, p := range o.Parameters {
		value := p.Example
		if g.IntN(3) > 0 || value == "" {
			value = g.pick(odd)
		}
		switch {
		case p.In == "path":
			if !strings.HasPrefix(value, "%") || len(value) < 2 {
				value = strings.NewReplacer("%", "%25", " ", "%20", "<", "%3c", ">", "%3e", "\u202e", "%e2%80%ae", "ü",
					"%c3%bc").Replace(value)
			}
			path = strings.Replace(path, "{"+p.Name+"}", value, 1)
		case p.Name == "wait": // does not wait
			query = append(query, "wait=0")
		case g.IntN(3) > 0:
		case p.In == "query":
			query = append(query, p.Name+"="+strings.ReplaceAll(value, " ", "+"))
		default:
			headers.Set(p.Name, value)
		}
	}
	body := g.body(o)
	r, err := http.NewRequest(o.Method, base+path+"?"+strings.Join(query, "&"), bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	r.Header = headers
	if len(body) > 0 && g.IntN(20) > 0 {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// body is the example of o with some values replaced or some bytes changed.
func (g generator) body(o *agenttest.Operation) []byte {
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

// mutate returns v, occasionally with a part replaced.
func (g generator) mutate(v any) any {
	if g.IntN(12) == 0 {
		return json.RawMessage(strings.Replace(g.pick(oddJSON), "1e400", "1e300", 1))
	}
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) { // sorted, so that a seed determines the result
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

var requests = flag.Int("requests", 5, "requests to each operation of the API")

// The agent answers every request, invalid ones with an error in its own format, and keeps running.
func TestAnyRequestIsAnswered(t *testing.T) {
	const seed = 1
	dir := agenttest.NewDir(t)
	t.Chdir(dir) // relative paths of generated connectors are resolved here
	w := startWeb(t, dir, func(c *config.Config) { c.Log.Level = "error" })
	w.Save("p.yaml", agenttest.Generated(dir, "p", 100, ""))
	w.WaitPhase("p", spec.PhaseRunning, 1)
	w.Must("POST", "/v1/pipelines", `{"id":"q","config":{"name":"q"}}`, nil)
	g, sent, statuses := generator{rand.New(rand.NewPCG(seed, 0))}, 0, map[int]int{}
	all := agenttest.Operations(w.Web)
	for _, o := range all {
		for range *requests {
			r := g.request(w.API.URL, &o)
			status, body := exchange(t, r, o.Streaming)
			statuses[status]++
			sent++
			if status >= 500 && (status != http.StatusServiceUnavailable || o.Path != "/readyz") &&
				(status != http.StatusNotImplemented || !strings.Contains(o.Path, "/inspect-")) {
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
	w.Must("POST", "/v1/pipelines", `{"id":"after","config":{"name":"after"}}`, nil)
	w.Must("GET", "/readyz", "", nil)
	if s := w.State("p"); s.Phase != spec.PhaseRunning {
		if got := w.Do("POST", "/v1/pipelines/p/start", ""); got.Status != http.StatusOK &&
			!strings.Contains(got.Body, "pipeline.running") {
			t.Errorf("the pipeline is %s: %d %s", s.Phase, got.Status, got.Body)
		}
	}
	w.More(t, "p")
}

// exchange returns the answer to r; for an endless stream, only the status.
func exchange(t *testing.T, r *http.Request, streaming bool) (int, []byte) {
	t.Helper()
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	defer response.Body.Close()
	if streaming && response.StatusCode == http.StatusOK ||
		strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		return response.StatusCode, nil
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	return response.StatusCode, body
}

// tidy deletes the resources that requests created, so that their number stays bounded.
func tidy(w *web) {
	w.T.Helper()
	all, err := w.API.Connectors(w.T.Context(), "")
	if err != nil {
		w.T.Fatal(err)
	}
	pipelines, err := w.API.Pipelines(w.T.Context())
	if err != nil {
		w.T.Fatal(err)
	}
	if len(pipelines)+len(all) < 60 {
		return
	}
	for _, p := range pipelines {
		if p.ID != "p" {
			w.Do("POST", "/v1/pipelines/"+p.ID+"/stop", "")
		}
	}
	for _, c := range all {
		w.Do("DELETE", fmt.Sprintf("/v1/connectors/%s", c.ID), "")
	}
	for _, p := range pipelines {
		w.Do("DELETE", "/v1/pipelines/"+p.ID, "")
	}
}
