package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/spec"
)

// Requests with the read token, to any operation of the document, return no secret and change nothing. Secrets are in
// settings of connectors, processors and dead-letter queues, in their errors, in variables, files and tokens.
func TestReadersReachNoSecretAndChangeNothing(t *testing.T) {
	const readToken, adminToken = "read-token-0123456789", "CanarYadmin-token-0123456789"
	dir := agenttest.NewDir(t)
	t.Chdir(dir)
	agenttest.InstallExecutables(t, dir, "tattler")
	admin, reader := agenttest.SecretFile(t, adminToken), agenttest.SecretFile(t, readToken)
	w := startWeb(t, dir, func(c *config.Config) {
		c.API.Auth.AdminTokenFile, c.API.Auth.ReadTokenFile = admin, reader
		c.Pipelines.ErrorRecovery.MaxRetries = 0
		c.Log.Level = "error"
	})
	w.API = &client.Client{URL: w.API.URL, Token: adminToken}
	g := &garden{t: t, canaries: []string{adminToken}}
	g.plantForReaders(w)

	before := stateOf(t, w)
	random, secrets, statuses := generator{rand.New(rand.NewPCG(7, 0))}, g.temptation(dir), map[int]int{}
	for _, o := range agenttest.Operations(w.Web) {
		for range *requests {
			r := random.tempting(w, o, secrets)
			r.Header.Set("Authorization", "Bearer "+readToken)
			status, answer := briefly(t, r)
			statuses[status]++
			if found := g.found(answer); len(found) > 0 {
				t.Errorf("%s %s shows %s: …%s…", r.Method, r.URL, found[0], around(answer, found[0]))
			}
		}
	}
	if after := stateOf(t, w); after != before {
		t.Errorf("the state has changed from\n%s\nto\n%s", before, after)
	}
	if least := 10 * *requests; statuses[http.StatusOK] < least || statuses[http.StatusForbidden] < least ||
		statuses[http.StatusUnauthorized] > 0 {
		t.Errorf("the requests did not reach what they should: %v", statuses)
	}
	t.Logf("statuses %v", statuses)
	w.Stop()
	if found := g.found(w.Log()); len(found) > 0 {
		t.Errorf("the log shows %s", around(w.Log(), found[0]))
	}
}

// plantForReaders saves pipelines with secrets, and returns when two have failed.
func (g *garden) plantForReaders(w *web) {
	const source, file, tattling = "builtin:generator", "builtin:file", "standalone:tattler"
	w.Save("open-d.yaml", g.pipeline(w.Dir, "open-d", source, "", tattling, "open", ""))
	w.Save("read.yaml", g.pipeline(w.Dir, "read", tattling, "read", file, "", ""))
	w.Save("write.yaml", g.pipeline(w.Dir, "write", source, "", tattling, "write", tattling))
	w.Save("hook.yaml", g.pipeline(w.Dir, "hook", source, "", file, "", "")+
		"  processors:\n  - id: hook\n    plugin: webhook.http\n    condition: 'false'\n    settings:\n      "+
		"request.url: https://hooks.example.com/x\n"+g.settings("      ", ""))
	w.Save("broken.yaml", strings.Replace(g.pipeline(w.Dir, "broken", source, "", tattling, "", ""), "type: source",
		"type: sauce", 1))
	for _, id := range []string{"open-d", "read"} {
		w.WaitPhase(id, spec.PhaseDegraded, 0)
	}
}

// temptation makes requests name a variable and a file that hold canaries, and the plugin that quotes its settings.
func (g *garden) temptation(dir string) *strings.Replacer {
	hidden := filepath.Join(dir, "hidden")
	g.canaries = append(g.canaries, "CanarYinAFile")
	if err := os.WriteFile(hidden, []byte("CanarYinAFile"), 0o600); err != nil {
		g.t.Fatal(err)
	}
	var variable string
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "PLANTED_") {
			variable = name
		}
	}
	return strings.NewReplacer("${HOME}", "${"+variable+"}", "/etc/passwd", hidden, "builtin:generator",
		"standalone:tattler")
}

// present are names of existing resources.
var present = []string{"open-d", "read", "write", "hook", "broken", "open-d:src", "open-d:dst", "read:src", "write:dst",
	"hook:hook", "tattler", "standalone:tattler@v1.0.0", "broken.yaml", "hook.yaml", "1"}

// tempting returns a random request for an operation, mostly on existing resources.
func (g generator) tempting(w *web, path agenttest.Operation, secrets *strings.Replacer) *http.Request {
	for strings.Contains(path.Path, "{") && g.IntN(4) > 0 {
		from, to := strings.Index(path.Path, "{"), strings.Index(path.Path, "}")
		path.Path = path.Path[:from] + g.pick(present) + path.Path[to+1:]
	}
	r := g.request(w.API.URL, &path)
	body, _ := io.ReadAll(r.Body)
	body = []byte(secrets.Replace(string(body)))
	if r.ContentLength = int64(len(body)); len(body) > 0 {
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	return r
}

// stateOf returns the declarations of files and overrides, the history, and the files.
func stateOf(t *testing.T, w *web) string {
	t.Helper()
	declared, err := w.Store.Declarations(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	state := map[string]any{"declared": declared}
	for _, d := range declared {
		history, err := w.Store.History(t.Context(), d.Pipeline.ID)
		if err != nil {
			t.Fatal(err)
		}
		state["history of "+d.Pipeline.ID] = history
	}
	files, err := os.ReadDir(w.Path("pipelines"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		content, err := os.ReadFile(w.Path("pipelines/" + f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		state["file "+f.Name()] = string(content)
	}
	text, err := json.Marshal(state)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// briefly returns the status of an answer, and the part of its body that arrives within a short time: some answers are
// endless.
func briefly(t *testing.T, r *http.Request) (int, string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	response, err := http.DefaultTransport.RoundTrip(r.WithContext(ctx))
	if err != nil {
		t.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	defer response.Body.Close()
	defer time.AfterFunc(200*time.Millisecond, cancel).Stop()
	body, _ := io.ReadAll(response.Body)
	headers, _ := json.Marshal(response.Header)
	return response.StatusCode, string(headers) + string(body)
}
