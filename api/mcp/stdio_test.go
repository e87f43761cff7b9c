package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/api/mcp"
)

// stdio serves an input to its end, and returns the answers by id, in JSON.
func stdio(t *testing.T, write bool, input string) map[string]string {
	t.Helper()
	agent := httptest.NewServer(api(t, map[string]any{"/v1/status": []any{map[string]any{"id": "orders"}}}))
	defer agent.Close()
	out, answers := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- mcp.Serve(t.Context(), mcp.Stdio{In: strings.NewReader(input), Out: answers, Write: write, Version: "v0",
			Agent: func(context.Context) (*client.Client, error) { return &client.Client{URL: agent.URL}, nil }})
		answers.Close()
	}()
	byID := map[string]string{}
	for d := json.NewDecoder(out); ; {
		var answer struct {
			ID            any
			Result, Error json.RawMessage
		}
		if err := d.Decode(&answer); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		byID[fmt.Sprint(answer.ID)] += string(answer.Result) + string(answer.Error)
	}
	if err := <-ended; err != nil {
		t.Errorf("the end of the input: %v", err)
	}
	return byID
}

const greeting = `{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-06-18",` +
	`"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
`

func calling(id int, tool string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%s"}}`, id, tool)
}

// TestLinesThatAreNoMessages answers such lines with errors, and the next line as usual.
func TestLinesThatAreNoMessages(t *testing.T) {
	notJSON := `{"code":-32700,"message":"a line is not JSON; each line must be one message"}`
	for name, c := range map[string]struct{ line, want string }{
		"not JSON":      {"hello\n", notJSON},
		"cut":           {`{"jsonrpc":"2.0","id":5,"meth` + "\n", notJSON},
		"two":           {calling(5, "a") + calling(6, "b") + "\n", notJSON},
		"long":          {strings.Repeat("x", 3<<20) + "\n", `"message":"a line is longer than 1048576 bytes"`},
		"a number":      {"7\n", "a line is no message of JSON-RPC 2.0: "},
		"an empty list": {"[]\n", "a line is no message of JSON-RPC 2.0: "},
		"no version":    {`{"id":5,"method":"ping"}` + "\n", "a line is no message of JSON-RPC 2.0: "},
		"no method":     {`{"jsonrpc":"2.0","id":5}` + "\n", ""},
		"blank lines":   {"\n  \r\n\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := stdio(t, false, greeting+c.line+calling(1, "list_pipelines")+"\r\n")
			if !strings.Contains(got["1"], "orders") || !strings.Contains(got["<nil>"], c.want) ||
				c.want == "" && got["<nil>"] != "" {
				t.Errorf("%v", got)
			}
			delete(got, "<nil>")
			if diff := cmp.Diff([]string{"1", "hello"}, slices.Sorted(maps.Keys(got))); diff != "" {
				t.Errorf("answered (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEndOfTheInput answers all requests before the end, also one in a line without an end, and those of a batch.
func TestEndOfTheInput(t *testing.T) {
	input, want := greeting, []string{"hello"}
	for id := range 50 {
		input += calling(id, "list_pipelines") + "\n"
		want = append(want, fmt.Sprint(id))
	}
	slices.Sort(want)
	got := stdio(t, false, strings.TrimSuffix(input, "\n"))
	for id, answer := range got {
		if id != "hello" && !strings.Contains(answer, "orders") {
			t.Errorf("%s: %s", id, answer)
		}
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(got))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	batch := stdio(t, false, greeting+"["+calling(1, "list_pipelines")+","+calling(2, "list_pipelines")+"]")
	if !strings.Contains(batch["1"], "orders") || !strings.Contains(batch["2"], "orders") {
		t.Errorf("a batch is answered with %v", batch)
	}
}

// TestCancelledRequest ends with the input although the agent does not answer a request, which the client cancelled.
func TestCancelledRequest(t *testing.T) {
	asked := make(chan bool)
	agent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- true
		<-r.Context().Done()
	}))
	defer agent.Close()
	in, messages := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- mcp.Serve(t.Context(), mcp.Stdio{In: in, Out: io.Discard, Version: "v0",
			Agent: func(context.Context) (*client.Client, error) { return &client.Client{URL: agent.URL}, nil }})
	}()
	_, _ = io.WriteString(messages, greeting+calling(1, "list_pipelines")+"\n")
	<-asked
	_, _ = io.WriteString(messages, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	messages.Close()
	if err := <-ended; err != nil {
		t.Errorf("the end of the input: %v", err)
	}
}

// TestMissingTools names the remedy for a tool that a client does not have.
func TestMissingTools(t *testing.T) {
	for _, c := range []struct {
		tool  string
		write bool
		want  string
	}{
		{"apply", false,
			"the tool \\\"apply\\\" changes pipelines, which is not allowed here: it needs 'conduit mcp --write'"},
		{"list", false, "there is no tool \\\"list\\\"; the tools are agent_status, list_pipelines, "},
		{"list", true, ", apply"},
		{`list_pipelines","arguments":{"x":1},"y":"`, false,
			`unexpected additional properties [\"x\"]\nRemedy: the arguments of list_pipelines are `},
		{`agent_status","arguments":{"x":1},"y":"`, false, `\nRemedy: the arguments of agent_status are offset"`},
	} {
		got := stdio(t, c.write, greeting+calling(1, c.tool)+"\n")
		if !strings.Contains(got["1"], c.want) {
			t.Errorf("%s: %s, want %s", c.tool, got["1"], c.want)
		}
	}
}
