package mcp_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/api/mcp"
	"github.com/conduit-agent/conduit/spec"
)

// The tools by the role and the setting that they need.
var (
	readerTools = []string{"agent_status", "dead_letter", "list_dead_letters", "list_events", "list_pipelines",
		"list_plugins", "metrics", "pending_changes", "pipeline_declaration", "pipeline_logs", "pipeline_status",
		"plugin_settings", "read_docs", "sample_records", "search_docs"}
	adminTools = []string{"dry_run", "plan", "plan_file", "validate"}
	writeTools = []string{"apply"}
)

func names(t *testing.T, s *sdk.ClientSession) (all []string) {
	t.Helper()
	for tool, err := range s.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, tool.Name)
	}
	slices.Sort(all)
	return all
}

func sorted(all ...[]string) []string {
	one := slices.Concat(all...)
	slices.Sort(one)
	return one
}

// planted are secrets that no tool may show: a password in a setting, a variable, and the tokens.
var planted = []string{"planted-password", "planted-variable", "planted-reader", "planted-admin"}

// TestAccess has readers and administrators use an agent with tokens: the list of tools, the operations of the API and
// the secrets in their answers.
func TestAccess(t *testing.T) {
	t.Setenv("PLANTED", "planted-variable")
	dir := agenttest.NewDir(t)
	for name, token := range map[string]string{"reader": "planted-reader", "admin": "planted-admin"} {
		if err := os.WriteFile(dir+"/"+name, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w := start(t, func(c *config.Config) {
		c.API.Auth = config.Auth{ReadTokenFile: dir + "/reader", AdminTokenFile: dir + "/admin"}
		c.API.MCP = "write"
		c.API.HTTP.Socket, c.API.HTTP.SocketMode = dir+"/api.sock", "0600"
	})
	w.Save("p.yaml", strings.Replace(agenttest.Picky(w.Dir, agenttest.IsBad, agenttest.Tolerant), "connectors:",
		`connectors:
      - {id: db, type: destination, plugin: postgres, settings: {table: t,
          url: "postgres://u:planted-password@127.0.0.1:1/${PLANTED}"}}`, 1))
	if err := os.WriteFile(w.Path("in.log"), []byte("bad\ngood\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.WaitPhase("p", spec.PhaseRecovering, 0)

	for _, token := range []string{"", "wrong"} {
		if _, err := dial(t, w.API.URL, token); err == nil {
			t.Errorf("token %q was accepted", token)
		}
	}
	reader, admin := connect(t, w.API.URL, "planted-reader"), connect(t, w.API.URL, "planted-admin")
	if got := names(t, reader); !slices.Equal(got, readerTools) {
		t.Errorf("readers have the tools %q", got)
	}
	all := sorted(readerTools, adminTools, writeTools)
	if got := names(t, admin); !slices.Equal(got, all) {
		t.Errorf("administrators have the tools %q", got)
	}
	if text, failed := use(t, reader, "apply", map[string]any{"content": "x", "hash": "x"}); !failed {
		t.Errorf("a reader applied: %s", text)
	}

	const simple = "version: \"2.2\"\npipelines:\n  - {id: s, connectors: [{id: a, type: source, plugin: generator}, " +
		"{id: b, type: destination, plugin: log}]}\n"
	file, _ := use(t, admin, "pipeline_declaration", map[string]any{"id": "p"})
	arguments := map[string]map[string]any{
		"dead_letter":       {"pipeline": "p", "id": 1},
		"list_dead_letters": {"pipeline": "p"},
		"plugin_settings":   {"plugin": "postgres"},
		"read_docs":         {},
		"sample_records":    {"stage": "p:src", "seconds": 0.01},
		"search_docs":       {"query": "password"},
		"dry_run":           {"content": simple, "records": []any{map[string]any{"payload": map[string]any{"after": "x"}}}},
		"plan":              {"content": file},
		"plan_file":         {"path": "p.yaml", "content": file},
		"validate":          {"content": file},
		"apply":             {"content": file, "hash": "x"},
	}
	for _, id := range []string{"pipeline_declaration", "pipeline_logs", "pipeline_status"} {
		arguments[id] = map[string]any{"id": "p"}
	}
	fails := []string{"plan", "apply", "dead_letter"} // the pipeline belongs to a file, and has no dead letter
	for _, tool := range all {
		for who, s := range map[string]*sdk.ClientSession{"reader": reader, "admin": admin} {
			if who == "reader" && !slices.Contains(readerTools, tool) {
				continue
			}
			text, failed := use(t, s, tool, arguments[tool])
			if failed != slices.Contains(fails, tool) {
				t.Errorf("%s calls %s: error: %v: %s", who, tool, failed, text)
			}
			for _, secret := range planted {
				if strings.Contains(text, secret) {
					t.Errorf("%s shows %s: %s", tool, secret, text)
				}
			}
		}
	}

	// The API decides again, whatever tools a client has: here a reader gets those of administrators.
	agent, err := url.Parse(w.API.URL)
	if err != nil {
		t.Fatal(err)
	}
	everything := func(*http.Request) bool { return true }
	careless := httptest.NewServer(mcp.Handler(httputil.NewSingleHostReverseProxy(agent), "v0", everything, true, nil))
	defer careless.Close()
	s := connect(t, careless.URL, "planted-reader")
	for _, tool := range sorted(adminTools, writeTools) {
		if text, failed := use(t, s, tool, arguments[tool]); !failed || !strings.Contains(text, "admin token") {
			t.Errorf("a reader called %s: %s", tool, text)
		}
	}

	c := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil)
	through, err := c.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: "http://localhost/mcp", MaxRetries: -1,
		DisableStandaloneSSE: true, HTTPClient: &http.Client{Transport: socket(dir + "/api.sock")}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer through.Close()
	if text, failed := use(t, through, "validate", arguments["validate"]); failed {
		t.Errorf("through the socket: %s", text)
	}

	for line := range strings.Lines(w.Log()) {
		if strings.Contains(line, "side effects") && strings.Contains(line, `"path":"/mcp"`) {
			t.Errorf("the audit trail has the call of a tool, not its requests: %s", line)
		}
	}
	if !strings.Contains(w.Log(), `"path":"/v1/pipelines/plan"`) {
		t.Error("the log lacks the request of a tool")
	}

	requests(t, w)
}

// requests sends requests that are none of an MCP client.
func requests(t *testing.T, w *agenttest.Web) {
	t.Helper()
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	usual := []string{"Accept", "application/json, text/event-stream", "Authorization", "Bearer planted-admin"}
	for _, tt := range []struct {
		what, method, body string
		headers            []string
		status             int
	}{
		{"list of tools", "POST", list, nil, 200},
		{"no token", "POST", list, []string{"Authorization", ""}, 401},
		{"another name of the host", "POST", list, []string{"Host", "evil.example"}, 421},
		{"page of another site", "POST", list, []string{"Origin", "https://evil.example"}, 403},
		{"form of a page", "POST", list, []string{"Content-Type", "text/plain", "Sec-Fetch-Site", "same-origin"}, 415},
		{"stream", "GET", "", nil, 405},
		{"end of a session", "DELETE", "", nil, 405},
		{"batch", "POST", " [" + list + "," + list + "]", nil, 400},
		{"large", "POST", `{"x":"` + strings.Repeat("x", 1<<20) + `"}`, nil, 413},
		{"no JSON", "POST", "{", nil, 400},
	} {
		got := w.Do(tt.method, "/mcp", tt.body, append(usual, tt.headers...)...)
		if got.Status != tt.status || strings.Contains(got.Body, `"public"`) {
			t.Errorf("%s: %d %s", tt.what, got.Status, got.Body)
		}
		const most = 12 << 10 // bytes that every conversation of a model carries
		if len(got.Body) > most {
			t.Errorf("%s: the answer has %d bytes", tt.what, len(got.Body))
		}
	}
}
