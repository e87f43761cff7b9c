package mcp_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/peterbourgon/ff/v3/ffcli"
	"go.yaml.in/yaml/v3"

	"github.com/conduit-agent/conduit/agent"
	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/api/mcp"
	"github.com/conduit-agent/conduit/cmd/conduit/docs"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/spec"
)

// start starts an agent with tools and the documentation.
func start(t *testing.T, change ...func(*config.Config)) *agenttest.Web {
	t.Helper()
	a := agenttest.StartWith(t, "", func(o *agent.Options) {
		o.ToolServer = mcp.Handler
		o.Docs = func(name string) ([]byte, bool) {
			files, err := site()
			content, ok := files[name]
			return content, ok && err == nil
		}
	}, change...)
	return &agenttest.Web{Agent: a, T: t, API: &client.Client{URL: "http://" + a.Address()}}
}

// site returns the files of the documentation.
var site = docs.Site(&ffcli.Command{Name: "conduit"}, "v0", func(*ffcli.Command) string { return "" })

// withToken is a transport that sends a token.
type withToken string

func (token withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	if token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+string(token))
	}
	return http.DefaultTransport.RoundTrip(r)
}

// connect connects an MCP client with /mcp of an agent.
func connect(t *testing.T, url, token string) *sdk.ClientSession {
	t.Helper()
	s, err := dial(t, url, token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func dial(t *testing.T, url, token string) (*sdk.ClientSession, error) {
	t.Helper()
	c := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil)
	return c.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: url + "/mcp", MaxRetries: -1,
		DisableStandaloneSSE: true, HTTPClient: &http.Client{Transport: withToken(token)}}, nil)
}

// use calls a tool, and returns its text, and whether that is an error.
func use(t *testing.T, s *sdk.ClientSession, tool string, arguments any) (text string, failed bool) {
	t.Helper()
	result, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return err.Error(), true
	}
	for _, c := range result.Content {
		text += c.(*sdk.TextContent).Text
	}
	return text, result.IsError
}

// task is something that a user wants, the calls of tools that achieve it, and the state that they must reach.
type task struct {
	Task  string
	Given []string // pipelines of the API, which generate records
	Steps []step
	State []state
}

// step is a call of a tool, a change of a text, or a request of another user.
type step struct {
	Call    string
	With    map[string]any
	Until   string            // repeat until the answer contains this text
	Says    string            // text that the answer must contain
	Fails   string            // text that the error must contain
	Save    map[string]string // names of values, and their paths in the answer; "" is the whole
	Edit    string            // name of a text to change
	Replace map[string]string
	Other   *request // another user changes something
}

type request struct{ Method, Path, Body string }

// state is a value that the REST API must return in the end.
type state struct {
	Get string
	At  string
	Is  any
	Has string // text that the answer contains
	Not string // text that it does not contain
}

// TestTasks solves every written task with tools alone, and then compares the state of the agent, as the REST API shows
// it, with the one to reach.
func TestTasks(t *testing.T) {
	w := start(t, func(c *config.Config) { c.API.MCP = "write" })
	w.Save("clock.yaml", agenttest.Generated(w.Dir, "clock", 100, "description: ticks"))
	w.Save("letters.yaml", strings.Replace(agenttest.Picky(w.Dir, agenttest.IsBad, agenttest.Tolerant), "id: p\n",
		"id: letters\n", 1))
	w.Save("broken.yaml", "version: \"2.2\"\npipelines:\n  - id: broken\n    colour: red\n")
	if err := os.WriteFile(w.Path("in.log"), []byte("good\nbad one\nbad two\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/tasks.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var tasks []task
	decoder := yaml.NewDecoder(strings.NewReader(string(text)))
	decoder.KnownFields(true)
	if err := decoder.Decode(&tasks); err != nil {
		t.Fatal(err)
	}
	if len(tasks) < 30 {
		t.Errorf("there are %d tasks", len(tasks))
	}
	session := connect(t, w.API.URL, "")
	for _, one := range tasks {
		t.Run(one.Task, func(t *testing.T) {
			s := &solver{T: t, web: w, session: session, values: map[string]string{"dir": w.Dir}}
			s.solve(one)
		})
	}
}

// solver performs the steps of a task.
type solver struct {
	*testing.T
	web     *agenttest.Web
	session *sdk.ClientSession
	values  map[string]string
}

func (s *solver) solve(one task) {
	for _, id := range one.Given {
		s.web.Apply(s.web.Document(id, id+".jsonl", 20))
		s.web.WaitPhase(id, spec.PhaseRunning, 0)
		s.Cleanup(func() { s.web.Do(http.MethodPost, "/v1/pipelines/"+id+"/stop", `{"force":true}`) })
	}
	for i, st := range one.Steps {
		switch {
		case st.Edit != "":
			text := s.values[st.Edit]
			for from, to := range st.Replace {
				if !strings.Contains(text, s.fill(from)) {
					s.Fatalf("step %d: %q is not in:\n%s", i+1, from, text)
				}
				text = strings.Replace(text, s.fill(from), s.fill(to), 1)
			}
			s.values[st.Edit] = text
		case st.Other != nil:
			s.web.Must(st.Other.Method, st.Other.Path, s.fill(st.Other.Body), nil)
		default:
			s.call(i+1, st)
		}
	}
	for _, want := range one.State {
		s.reach(want)
	}
}

func (s *solver) call(number int, st step) {
	s.Helper()
	arguments := s.filled(st.With)
	text, failed := "", false
	wait.For(s.T, st.Call+" says "+st.Until, func() bool {
		text, failed = use(s.T, s.session, st.Call, arguments)
		return strings.Contains(text, s.fill(st.Until))
	}, func() string { return text })
	switch {
	case failed != (st.Fails != ""):
		s.Fatalf("step %d: %s: error: %v:\n%s", number, st.Call, failed, text)
	case !strings.Contains(text, s.fill(st.Says+st.Fails)):
		s.Fatalf("step %d: %s does not say %q:\n%s", number, st.Call, st.Says+st.Fails, text)
	}
	for name, path := range st.Save {
		if path == "" {
			s.values[name] = text
			continue
		}
		s.values[name] = fmt.Sprint(at(s.T, text, path))
	}
}

// reach waits until the REST API returns the wanted value.
func (s *solver) reach(want state) {
	s.Helper()
	var got *agenttest.Answer
	wait.For(s.T, fmt.Sprintf("%+v", want), func() bool {
		got = s.web.Do(http.MethodGet, s.fill(want.Get), "")
		switch {
		case want.Has != "":
			return strings.Contains(got.Body, s.fill(want.Has))
		case want.Not != "":
			return !strings.Contains(got.Body, s.fill(want.Not))
		case want.At == "":
			return fmt.Sprint(got.Status) == fmt.Sprint(want.Is)
		}
		return fmt.Sprint(at(s.T, got.Body, want.At)) == s.fill(fmt.Sprint(want.Is))
	}, func() string { return got.Body })
}

// fill replaces ${NAME} by values.
func (s *solver) fill(text string) string {
	for name, value := range s.values {
		text = strings.ReplaceAll(text, "${"+name+"}", value)
	}
	return text
}

// filled returns arguments with their texts filled.
func (s *solver) filled(arguments map[string]any) map[string]any {
	all := map[string]any{}
	for name, value := range arguments {
		text, ok := value.(string)
		if !ok {
			all[name] = value
			continue
		}
		if text = s.fill(text); name == "id" && len(text) > 0 && strings.Trim(text, "0123456789") == "" {
			all[name] = json.Number(text)
			continue
		}
		all[name] = text
	}
	return all
}

// at returns the value at a path, such as items.0.id, in a JSON text.
func at(t *testing.T, text, path string) any {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	for name := range strings.SplitSeq(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			v = in[name]
		case []any:
			var i int
			if name == "#" {
				return len(in)
			}
			if _, err := fmt.Sscan(name, &i); err != nil || i >= len(in) {
				return nil
			}
			v = in[i]
		default:
			return nil
		}
	}
	return v
}
