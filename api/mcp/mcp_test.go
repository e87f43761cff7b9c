package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/api/mcp"
)

// socket returns a transport through a Unix socket.
func socket(path string) http.RoundTripper {
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
}

// api serves what these tests need of the API.
func api(t *testing.T, answers map[string]any) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.Path]
		switch answer := answer.(type) {
		case func(*http.Request) any:
			_ = json.NewEncoder(w).Encode(answer(r))
		case string:
			_, _ = io.WriteString(w, answer)
		default:
			if !ok {
				t.Errorf("request for %s", r.URL.Path)
			}
			_ = json.NewEncoder(w).Encode(answer)
		}
	})
}

// served connects a client with the tools of a fake API.
func served(t *testing.T, answers map[string]any) *sdk.ClientSession {
	t.Helper()
	admin := func(*http.Request) bool { return true }
	server := httptest.NewServer(mcp.Handler(api(t, answers), "v0", admin, false, nil))
	t.Cleanup(server.Close)
	return connect(t, server.URL, "")
}

const maxBytes = 25 << 10 // of an answer

var quotedAfter = regexp.MustCompile(`with after \\?"([^"\\]+)`)

// TestLists pages through a long list by following the answers only.
func TestLists(t *testing.T) {
	var statuses, want []any
	for i := range 300 {
		id := fmt.Sprintf("pipeline-%04d", i)
		want = append(want, id)
		statuses = append(statuses, map[string]any{"id": id, "state": map[string]any{"phase": "recovering",
			"error": strings.Repeat("<cause> ", 10)}})
	}
	s := served(t, map[string]any{"/v1/status": statuses})
	var got []any
	arguments := map[string]any{"limit": 1000}
	for {
		text, failed := use(t, s, "list_pipelines", arguments)
		if failed || len(text) > maxBytes || !strings.Contains(text, "<cause>") {
			t.Fatalf("error: %v, %d bytes: %.300s", failed, len(text), text)
		}
		var page struct {
			Items []struct{ ID string }
			More  string
		}
		if err := json.Unmarshal([]byte(text), &page); err != nil {
			t.Fatal(err)
		}
		for _, item := range page.Items {
			got = append(got, item.ID)
		}
		next := quotedAfter.FindStringSubmatch(page.More)
		if next == nil {
			break
		}
		arguments["after"] = next[1]
	}
	if !slices.Equal(got, want) {
		t.Errorf("the pages have %d pipelines", len(got))
	}
}

var offset = regexp.MustCompile(`\nmore: .*offset (\d+)$`)

// TestTexts reads a long text in parts.
func TestTexts(t *testing.T) {
	var want strings.Builder
	for i := range 1500 {
		fmt.Fprintf(&want, "metric{pipeline=\"größe-%d\"} 1\n", i)
	}
	s := served(t, map[string]any{"/metrics": "# HELP metric of a test\n" + want.String()})
	got, arguments := "", map[string]any{}
	for {
		text, failed := use(t, s, "metrics", arguments)
		if failed || len(text) > maxBytes {
			t.Fatalf("error: %v, %d bytes: %.300s", failed, len(text), text)
		}
		next := offset.FindStringSubmatch(text)
		if next == nil {
			got += text
			break
		}
		got += strings.TrimSuffix(text, next[0])
		arguments["offset"] = json.Number(next[1])
	}
	if got != want.String() {
		t.Errorf("the parts have %d bytes, want %d", len(got), want.Len())
	}
	if text, failed := use(t, s, "metrics", map[string]any{"offset": 1 << 30}); !failed {
		t.Errorf("beyond the end: %s", text)
	}
}

// TestLongItems cuts an item of a list that is too long, and keeps the others.
func TestLongItems(t *testing.T) {
	line := func(id int, message string) map[string]any { return map[string]any{"id": id, "message": message} }
	s := served(t, map[string]any{"/v1/pipelines/p/logs": []any{line(1, "first"), line(2, strings.Repeat("x", 1<<20)),
		line(3, "last")}})
	text, failed := use(t, s, "pipeline_logs", map[string]any{"id": "p"})
	if failed || len(text) > maxBytes || !strings.Contains(text, "first") || !strings.Contains(text, "last") ||
		!strings.Contains(text, `"bytes":1048`) {
		t.Errorf("error: %v, %d bytes: %.300s", failed, len(text), text)
	}
}

// TestEvents continues after the last event of an answer, whether or not it belongs to the pipeline.
func TestEvents(t *testing.T) {
	events := func(r *http.Request) any {
		after := 0
		_, _ = fmt.Sscan(r.URL.Query().Get("after"), &after)
		var all []any
		for id := after + 1; id <= 2500 && len(all) < 1000; id++ {
			pipeline := "others"
			if id == 2400 {
				pipeline = "p"
			}
			all = append(all, map[string]any{"id": id, "pipeline": pipeline})
		}
		return all
	}
	s := served(t, map[string]any{"/v1/events": events})
	for after, want := range map[int]string{0: "with after 1000", 1000: "with after 2000", 2000: `"id":2400`} {
		text, _ := use(t, s, "list_events", map[string]any{"pipeline": "p", "after": after})
		if !strings.Contains(text, want) {
			t.Errorf("after %d: %s", after, text)
		}
	}
	text, _ := use(t, s, "list_events", map[string]any{"after": 0, "limit": 2})
	if !strings.Contains(text, "with after 2\"") {
		t.Errorf("a page: %s", text)
	}
}

// TestFaults has tools fail without an end of the agent.
func TestFaults(t *testing.T) {
	s := served(t, map[string]any{
		"/v1/plan":   func(*http.Request) any { panic("a fault") },
		"/metrics":   strings.Repeat("x", 17<<20),
		"/v1/events": "no JSON",
	})
	if got := names(t, s); !slices.Equal(got, sorted(readerTools, adminTools)) {
		t.Errorf("without write there are the tools %q", got)
	}
	for tool, says := range map[string]string{"pending_changes": "aborted", "metrics": "too large",
		"list_events": "cannot read"} {
		if text, failed := use(t, s, tool, nil); !failed || !strings.Contains(text, says) {
			t.Errorf("%s: %s", tool, text)
		}
	}
	for tool, arguments := range map[string]map[string]any{
		"pipeline_status":   {},                                      // lacks the id
		"pipeline_logs":     {"id": 7},                               // is no text
		"list_pipelines":    {"colour": "red"},                       // is unknown
		"list_dead_letters": {"pipeline": "p", "since": "yesterday"}, // is no time
		"search_docs":       {"query": " "},
	} {
		if text, failed := use(t, s, tool, arguments); !failed {
			t.Errorf("%s %v: %s", tool, arguments, text)
		}
	}
}

// TestStdio uses the tools over streams, first with an agent and then without.
func TestStdio(t *testing.T) {
	agent := httptest.NewServer(api(t, map[string]any{"/v1/status": []any{map[string]any{"id": "orders"}}}))
	ends := map[bool]chan error{}
	connected := func(write bool) *sdk.ClientSession {
		in, toServer := io.Pipe()
		fromServer, out := io.Pipe()
		ends[write] = make(chan error, 1)
		go func() {
			ends[write] <- mcp.Serve(t.Context(), mcp.Stdio{In: in, Out: out, Write: write, Version: "v0",
				Agent: func(context.Context) (*client.Client, error) {
					return &client.Client{URL: agent.URL}, nil
				},
				Explain: func(err error) error { return fmt.Errorf("%w\nstart it", err) }})
		}()
		s, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(t.Context(),
			&sdk.IOTransport{Reader: fromServer, Writer: toServer}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	reading, writing := connected(false), connected(true)
	if got := names(t, reading); !slices.Equal(got, sorted(readerTools, adminTools)) {
		t.Errorf("tools: %q", got)
	}
	if got := names(t, writing); !slices.Equal(got, sorted(readerTools, adminTools, writeTools)) {
		t.Errorf("tools with write: %q", got)
	}
	if text, failed := use(t, reading, "list_pipelines", nil); failed || !strings.Contains(text, "orders") {
		t.Errorf("pipelines: %s", text)
	}
	agent.Close()
	if text, failed := use(t, reading, "list_pipelines", nil); !failed || !strings.Contains(text, "start it") {
		t.Errorf("without an agent: %s", text)
	}
	for write, s := range map[bool]*sdk.ClientSession{false: reading, true: writing} {
		s.Close()
		if err := <-ends[write]; err != nil {
			t.Errorf("the end of the input: %v", err)
		}
	}
}
