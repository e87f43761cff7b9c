package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/spec"
)

func TestSettle(t *testing.T) {
	runs := spec.State{Phase: spec.PhaseRunning, RunningGeneration: 2, LastGood: &spec.LastGood{Generation: 2}}
	failed := spec.State{Phase: spec.PhaseDegraded, LastAttempt: &spec.Attempt{Generation: 2, Error: "no"}}
	for _, tt := range []struct {
		name   string
		status rest.PipelineStatus
		want   string
	}{
		{"runs", rest.PipelineStatus{State: runs}, "finished"},
		{"stopped on request, and still running", rest.PipelineStatus{Override: spec.StatusStopped, State: runs},
			"waiting"},
		{"withdrawn, and still running", rest.PipelineStatus{Withdrawn: new(time.Now()), State: runs}, "waiting"},
		{"degraded", rest.PipelineStatus{State: failed}, "failed"},
	} {
		tt.status.ID, tt.status.Generation, tt.status.Declared = "p", 2, spec.StatusRunning
		failed, waiting := unfinished([]pipelineStatus{{PipelineStatus: tt.status}})
		got := "finished"
		if len(failed) > 0 {
			got = "failed"
		} else if len(waiting) > 0 {
			got = "waiting"
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// agentAt serves the requests of the status command, and 401 without the token.
func agentAt(t *testing.T, token string) string {
	answers := map[string]any{
		"/readyz":   rest.Readiness{Status: "ready"},
		"/v1/files": []spec.FileState{},
		"/v1/status": []rest.PipelineStatus{{ID: "orders", Generation: 1,
			State: spec.State{Phase: spec.PhaseRunning, RunningGeneration: 1}}},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := answers[r.URL.Path]
		switch {
		case r.Header.Get("Authorization") != "Bearer "+token:
			w.WriteHeader(http.StatusUnauthorized)
		case !ok:
			w.WriteHeader(http.StatusNotFound)
		default:
			json.NewEncoder(w).Encode(body)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestCommandsFindTheSocket runs an agent behind a Unix socket. Commands use TCP with --api.address, or when they
// cannot open the socket.
func TestCommandsFindTheSocket(t *testing.T) {
	t.Chdir(t.TempDir())
	url := agentAt(t, "secret")
	if err := os.Mkdir("s", 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", "s/api")
	if err != nil {
		t.Fatal(err)
	}
	local := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "localhost" || r.Header.Get("Authorization") != "" {
			t.Errorf("asked as %q with %q", r.Host, r.Header.Get("Authorization"))
		}
		switch r.URL.Path {
		case "/v1/status":
			json.NewEncoder(w).Encode([]rest.PipelineStatus{{ID: "through-the-socket"}})
		case "/readyz":
			json.NewEncoder(w).Encode(rest.Readiness{Status: "ready"})
		default:
			json.NewEncoder(w).Encode([]any{})
		}
	})}
	go local.Serve(l)
	defer local.Close()
	for socket, want := range map[string]string{"s/api": "through-the-socket", "s/none": "orders"} {
		for _, args := range [][]string{{"status", "--interval", "1ms"},
			{"status", "--interval", "1ms", "--api.address", url}} {
			var stdout, stderr bytes.Buffer
			p := &Program{Stdout: &stdout, Stderr: &stderr, Environ: []string{TokenVariable + "=secret",
				"CONDUIT_API_HTTP_SOCKET=" + socket, "CONDUIT_API_HTTP_ADDRESS=" + strings.TrimPrefix(url, "http://")}}
			code := Run(t.Context(), p, args)
			expect := want
			if len(args) > 3 {
				expect = "orders"
			}
			if code != ExitOK || !strings.Contains(stdout.String(), expect) {
				t.Errorf("%s, %v: ended with %d, %s%s; want %s", socket, args, code, &stdout, &stderr, expect)
			}
		}
	}
}

// pages ends the context after n written pages.
type pages struct {
	bytes.Buffer
	n   int
	end context.CancelFunc
}

func (p *pages) Write(b []byte) (int, error) {
	if p.n--; p.n == 0 {
		p.end()
	}
	return p.Buffer.Write(b)
}

func TestStatusIsRefreshed(t *testing.T) {
	t.Chdir(t.TempDir())
	url := agentAt(t, "secret")
	for _, isTerminal := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		out := &pages{n: 2, end: cancel}
		p := &Program{Stdout: out, Stderr: &bytes.Buffer{}, Terminal: isTerminal,
			Environ: []string{TokenVariable + "=secret"}}
		if code := Run(ctx, p, []string{"status", "-w", "--interval", "1ms", "--api.address", url}); code != ExitOK {
			t.Fatalf("ended with %d", code)
		}
		text := out.String()
		if n := strings.Count(text, "PIPELINE"); n != 2 {
			t.Errorf("%d pages, want 2:\n%s", n, text)
		}
		escapes := []int{strings.Count(text, "\x1b[2J"), strings.Count(text, "\x1b[H"),
			strings.Count(text, terminal.Green+"running")}
		want := []int{0, 0, 0}
		if isTerminal {
			want = []int{1, 2, 2}
		}
		if !slices.Equal(escapes, want) {
			t.Errorf("terminal %v: cleared, home, green %v times, want %v:\n%q", isTerminal, escapes, want, text)
		}
	}
}

// Pipelines that need attention come first, where even a terminal with few lines shows them.
func TestWatchedStatusBeginsWithWhatNeedsAttention(t *testing.T) {
	t.Chdir(t.TempDir())
	answers := map[string]any{
		"/readyz": rest.Readiness{Status: "ready"},
		"/v1/files": []spec.FileState{{Path: "broken.yaml",
			Problems: []spec.Problem{{File: "broken.yaml", Line: 3, Column: 1, Severity: spec.SeverityError,
				Message: "no YAML"}}}},
		"/v1/status": []rest.PipelineStatus{
			{ID: "a-runs", Generation: 1, State: spec.State{Phase: spec.PhaseRunning, RunningGeneration: 1}},
			{ID: "b-by-hand", Generation: 1, Declared: spec.StatusRunning, Override: spec.StatusStopped,
				State: spec.State{Phase: spec.PhaseStopped}},
			{ID: "c-fails", Generation: 1, State: spec.State{Phase: spec.PhaseDegraded, Error: "no file"}},
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		json.NewEncoder(w).Encode(answers[r.URL.Path])
	}))
	defer server.Close()
	for _, isTerminal := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		out := &pages{n: 1, end: cancel}
		p := &Program{Stdout: out, Stderr: &bytes.Buffer{}, Terminal: isTerminal}
		if code := Run(ctx, p, []string{"status", "-w", "--interval", "1ms", "--api.address", server.URL}); code !=
			ExitOK {
			t.Fatalf("ended with %d", code)
		}
		if !regexp.MustCompile(`(?s)broken.yaml:3:1: .*PIPELINE.*c-fails.*b-by-hand.*a-runs`).MatchString(
			out.String()) {
			t.Errorf("terminal %v:\n%s", isTerminal, out.String())
		}
	}
}

func TestTokenIsAskedFor(t *testing.T) {
	t.Chdir(t.TempDir())
	var stderr bytes.Buffer
	p := &Program{Stdout: &bytes.Buffer{}, Stderr: &stderr}
	if code := Run(t.Context(), p, []string{"status", "--api.address", agentAt(t, "secret")}); code !=
		ExitEnvironment || !strings.Contains(stderr.String(), TokenVariable) {
		t.Errorf("ended with %d: %s", code, stderr.String())
	}
}

func TestAgentIsFoundBySettings(t *testing.T) {
	t.Chdir(t.TempDir())
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Write([]byte("[]"))
	}))
	defer server.Close()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for name, text := range map[string]string{"cert.pem": string(certificate), "token": "secret\n",
		"conduit.yaml": "api:\n" +
			"  http: {address: \"" + server.Listener.Addr().String() +
			"\"}\n  tls: {cert-file: cert.pem, key-file: key.pem}\n  auth: {admin-token-file: token}\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var stdout, stderr bytes.Buffer
	p := &Program{Stdout: &stdout, Stderr: &stderr}
	if code := Run(t.Context(), p, []string{"connectors", "ls", "--json"}); code != ExitOK ||
		stdout.String() != "[]\n" {
		t.Errorf("ended with %d: %s%s", code, stdout.String(), stderr.String())
	}
	if code := Run(t.Context(), p, []string{"connectors", "ls", "--api.address", server.URL}); code != ExitEnvironment {
		t.Error("the token of this agent was sent to another")
	}
}

// Another program that answers at the address is reported as such.
func TestForeignServer(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"does not know the request (404 Not Found)": http.NotFound,
		"response is not JSON": func(w http.ResponseWriter, _ *http.Request) {
			w.Write([]byte("<html>welcome</html>"))
		},
	} {
		server := httptest.NewServer(answer)
		var out, err bytes.Buffer
		code := (&Program{Stdout: &out, Stderr: &err}).Run(t.Context(), root(&Program{Stdout: &out, Stderr: &err}),
			[]string{"status", "--api.address", server.URL})
		server.Close()
		if code != ExitEnvironment || !strings.Contains(err.String(), "is not a conduit agent: ") ||
			!strings.Contains(err.String(), name) || out.Len() > 0 {
			t.Errorf("%s: ended with %d: %s%s", name, code, out.String(), err.String())
		}
	}
}

func TestAgentURL(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:8080": "https://127.0.0.1:8080", ":8080": "https://127.0.0.1:8080",
		"0.0.0.0:1": "https://127.0.0.1:1",
		"[::]:1":    "https://127.0.0.1:1", "[::1]:1": "https://[::1]:1", "host:1": "https://host:1",
		"http://host/": "http://host", "https://host:1": "https://host:1", "host": "", "http://": "", "": "",
	} {
		got, err := AgentURL("https", address)
		if (err != nil) != (want == "") || err == nil && got != want {
			t.Errorf("%q: %q, %v; want %q", address, got, err, want)
		}
	}
}
