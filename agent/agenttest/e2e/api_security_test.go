package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent"
	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/parts"
	"github.com/conduit-agent/conduit/agent/reference"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/spec"
)

// Requests that a page of another site can make a browser send change nothing and show nothing.
func TestPagesOfOtherSitesReachNothing(t *testing.T) {
	t.Parallel()
	w := startWeb(t, "")
	w.Save("p.yaml", agenttest.Generated(w.Dir, "p", 100, ""))
	w.WaitPhase("p", spec.PhaseRunning, 1)
	_, port, _ := net.SplitHostPort(w.Address())
	upgrade := []string{"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13",
		"Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="}
	for _, c := range []struct {
		what    string
		method  string
		path    string
		body    string
		headers []string
		status  int
	}{
		{"form of another site", "POST", "/v1/pipelines/p/stop", "",
			[]string{"Origin", "http://evil.example", "Sec-Fetch-Site", "cross-site"}, 403},
		{"another origin", "POST", "/v1/pipelines/p/stop", "", []string{"Origin", "http://evil.example"}, 403},
		{"another port", "POST", "/v1/pipelines/p/stop", "", []string{"Origin", "http://127.0.0.1:1"}, 403},
		{"a page without origin", "POST", "/v1/pipelines/p/stop", "", []string{"Origin", "null"}, 403},
		{"same site, another host", "POST", "/v1/pipelines/p/stop", "", []string{"Sec-Fetch-Site", "same-site"}, 403},
		{"text of a page", "POST", "/v1/pipelines", `{"config":{"name":"n"}}`,
			[]string{"Content-Type", "text/plain", "Origin", w.API.URL, "Sec-Fetch-Site", "same-origin"}, 415},
		{"text of another site", "POST", "/v1/pipelines", `{"config":{"name":"n"}}`,
			[]string{"Content-Type", "text/plain", "Sec-Fetch-Site", "cross-site"}, 403},
		{"a form of a page", "POST", "/v1/pipelines", `{"config":{"name":"n"}}`,
			[]string{"Content-Type", "application/x-www-form-urlencoded", "Origin", w.API.URL,
				"Sec-Fetch-Site", "same-origin"}, 415},
		{"rebound name", "GET", "/v1/pipelines", "", []string{"Host", "evil.example:" + port}, 421},
		{"rebound name, changing", "DELETE", "/v1/pipelines/p", "",
			[]string{"Host", "evil.example", "Origin", "http://evil.example"}, 421},
		{"rebound WebSocket", "GET", "/v1/connectors/p:src/inspect", "",
			append([]string{"Host", "evil.example:" + port, "Origin", "http://evil.example:" + port}, upgrade...), 421},
		{"WebSocket of another site", "GET", "/v1/connectors/p:src/inspect", "",
			append([]string{"Origin", "http://evil.example"}, upgrade...), 403},
		{"WebSocket of a page without origin", "GET", "/v1/connectors/p:src/inspect", "",
			append([]string{"Origin", "null"}, upgrade...), 403},
		{"a name with the same beginning", "GET", "/v1/pipelines", "", []string{"Host", "localhost.evil.example"}, 421},
		{"the explorer by another name", "GET", "/openapi/", "", []string{"Host", "evil.example"}, 421},
		{"its own page", "POST", "/v1/pipelines", `{"id":"own","config":{"name":"own"}}`,
			[]string{"Origin", w.API.URL, "Sec-Fetch-Site", "same-origin"}, 200},
	} {
		got := w.Do(c.method, c.path, c.body, c.headers...)
		if got.Status != c.status {
			t.Errorf("%s: %d %s, want %d", c.what, got.Status, got.Body, c.status)
		}
		if got.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: the answer is shown to other origins", c.what)
		}
	}
	if s := w.State("p"); s.Phase != spec.PhaseRunning {
		t.Errorf("the pipeline is %s", s.Phase)
	}
	if got := w.Do("GET", "/v1/pipelines", ""); strings.Count(got.Body, `"id"`) != 2 {
		t.Errorf("pipelines %s", got.Body)
	}
}

func TestMalformedRequests(t *testing.T) {
	t.Parallel()
	w := startWeb(t, "")
	const create = "/v1/pipelines"
	for _, c := range []struct {
		what, method, path, body string
		status                   int
		want                     string
	}{
		{"a body of more than 1 MiB", "POST", create, `{"config":{"name":"` + strings.Repeat("x", 1<<20) + `"}}`, 413,
			"1048576"},
		{"import of more than 1 MiB", "POST", create + "/import", `{"version":"` + strings.Repeat("x", 1<<20) + `"}`,
			413, "1048576"},
		{"deep JSON", "POST", create, `{"config":` + strings.Repeat(`{"a":`, 100_000) + `1` + strings.Repeat("}",
			100_000) + "}", 400, ""},
		{"deep lists", "POST", create + "/import", `{"pipelines":` + strings.Repeat("[", 100_000) + strings.Repeat("]",
			100_000) + "}", 400, ""},
		{"a key twice", "POST", create, `{"config":{"name":"a","name":"b"}}`, 400, "config.name appears twice"},
		{"an object twice", "POST", create, `{"config":{"name":"a"},"config":{"name":"b"}}`, 400,
			"config appears twice"},
		{"another case", "POST", create, `{"Config":{"name":"a"}}`, 400, "Config"},
		{"two values", "POST", create, `{"config":{"name":"a"}}{"config":{"name":"b"}}`, 400, "there is data after"},
		{"not UTF-8", "POST", create, "{\"config\":{\"name\":\"\xff\"}}", 400, "UTF-8"},
		{"a list", "POST", create, `[]`, 400, ""},
		{"a large number", "POST", "/v1/processors", `{"plugin":"x","config":{"workers":1e999}}`, 400, ""},
		{"nothing", "POST", create, `null`, 400, ""},
		{"wrong method", "PATCH", create, `{}`, 405, ""},
		{"wrong method next to a word", "DELETE", create + "/import", "", 404, ""},
		{"a method of its own", "BREW", create, "", 405, ""},
		{"TRACE", "TRACE", create, "", 405, ""},
		{"traversal", "GET", "/openapi/../../../../etc/passwd", "", 404, ""},
		{"encoded traversal", "GET", "/openapi/..%2f..%2f..%2fetc%2fpasswd", "", 404, ""},
		{"doubly encoded traversal", "GET", "/openapi/%252e%252e%252fopenapi.go", "", 404, ""},
		{"the source of the page", "GET", "/openapi/..%2fopenapi.go", "", 404, ""},
		{"a traversing id", "GET", "/v1/pipelines/..%2f..%2fconduit.db", "", 404, ""},
		{"NUL", "GET", "/v1/pipelines/%00", "", 404, ""},
		{"an id that is a path", "POST", create, `{"id":"../p","config":{"name":"n"}}`, 400, ""},
		{"a long id", "POST", create, `{"id":"` + strings.Repeat("x", 5000) + `","config":{"name":"n"}}`, 400, ""},
		{"a plugin outside", "POST", "/v1/connectors",
			`{"type":"TYPE_SOURCE","plugin":"/bin/sh","pipelineId":"ok","config":{}}`, 404, ""},
		{"a plugin above", "POST", "/v1/connectors",
			`{"type":"TYPE_SOURCE","plugin":"../../../../bin/sh","pipelineId":"ok","config":{}}`, 404, ""},
	} {
		if c.what == "a plugin outside" {
			w.Must("POST", create, `{"id":"ok","config":{"name":"ok"}}`, nil)
		}
		got := w.Do(c.method, c.path, c.body)
		if got.Status != c.status || !strings.Contains(got.Body, c.want) || !json.Valid([]byte(got.Body)) {
			t.Errorf("%s: %d %.300s, want %d %s", c.what, got.Status, got.Body, c.status, c.want)
		}
		if strings.Contains(got.Body, "root:") || len(got.Body) > 64<<10 {
			t.Errorf("%s: answered with %d bytes: %.100s", c.what, len(got.Body), got.Body)
		}
	}
	if got := w.Do("GET", create, ""); strings.Count(got.Body, `"id"`) != 1 {
		t.Errorf("pipelines %s", got.Body)
	}
}

// Requests that are not valid HTTP, or exceed the limits of a header.
func TestRawRequests(t *testing.T) {
	t.Parallel()
	w := startWeb(t, "")
	host := w.Address()
	for _, c := range []struct{ what, request, status string }{
		{"large headers", "GET /healthz HTTP/1.1\r\nHost: " + host + "\r\nX: " + strings.Repeat("x", 64<<10) +
			"\r\n\r\n", "431"},
		{"no host", "GET /healthz HTTP/1.1\r\n\r\n", "400"},
		{"two hosts", "GET /healthz HTTP/1.1\r\nHost: " + host + "\r\nHost: evil.example\r\n\r\n", "400"},
		{"absolute form", "GET http://evil.example/v1/pipelines HTTP/1.1\r\nHost: " + host + "\r\n\r\n", "421"},
		{"two lengths", "POST /v1/pipelines HTTP/1.1\r\nHost: " + host +
			"\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde", "400"},
		{"no HTTP", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n", "400"},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "421"},
		{"endless chunks", "POST /v1/pipelines HTTP/1.1\r\nHost: " + host +
			"\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" +
			strings.Repeat("10000\r\n"+strings.Repeat(" ", 65536)+"\r\n", 20), "413"},
	} {
		conn, err := net.Dial("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(wait.Limit))
		_, _ = io.WriteString(conn, c.request) // it may be refused before it is read
		got := make([]byte, 12)
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != "HTTP/1.1 "+c.status {
			t.Errorf("%s: %q, error %v, want %s", c.what, got, err, c.status)
		}
		conn.Close()
	}
}

// Whatever clients send, each line of the log is one entry written by the agent.
func TestClientsCannotWriteTheLog(t *testing.T) {
	t.Parallel()
	const forged = `{"level":"ERROR","msg":"forged"}`
	w := startWeb(t, "")
	name, err := json.Marshal("n\n" + forged + "\r\n\x1b[31m")
	if err != nil {
		t.Fatal(err)
	}
	w.Do("POST", "/v1/pipelines", `{"id":"p","config":{"name":"p","description":`+string(name)+`}}`)
	w.Do("POST", "/v1/pipelines", `{"config":{"name":`+string(name)+`}}`)
	w.Do("POST", "/v1/connectors", `{"type":"TYPE_SOURCE","pipelineId":"p","plugin":`+string(name)+`}`)
	w.Do("GET", "/v1/pipelines/p%0a"+strings.NewReplacer("{", "%7b", "}", "%7d", `"`, "%22").Replace(forged), "")
	w.Do("GET", "/v1/pipelines?name=%0a%28", "", "User-Agent", "x "+forged)
	w.Do("POST", "/v1/pipelines/p/start", "")
	w.Stop()
	lines := 0
	for line := range strings.Lines(w.Log()) {
		var entry struct{ Msg string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Msg == "forged" {
			t.Errorf("line %q, error %v", line, err)
		}
		lines++
	}
	if lines == 0 || strings.Contains(w.Log(), "\x1b") {
		t.Errorf("%d lines, or escape codes in them", lines)
	}
}

// A secret appears nowhere: not in answers, errors, the history, files or the log.
func TestSecretsAreShownNowhere(t *testing.T) {
	t.Parallel()
	const secret = "canary-51c0a7"
	dir := agenttest.NewDir(t)
	agenttest.InstallExecutables(t, dir, "journal")
	w := startWeb(t, dir)
	w.Must("POST", "/v1/pipelines", `{"id":"p","config":{"name":"p"}}`, nil)
	w.Must("POST", "/v1/connectors", fmt.Sprintf(journalSource, "https://user:"+secret+"@host/db"), nil)
	w.Must("POST", "/v1/connectors", fmt.Sprintf(
		`{"id":"dst","type":"TYPE_DESTINATION","plugin":"file","pipelineId":"p","config":{"settings":{"path":"%s/out"}}}`,
		dir), nil)
	w.Must("POST", "/v1/pipelines/p/start", "", nil)
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/v1/connectors",
			fmt.Sprintf(`{"type":"TYPE_SOURCE","plugin":"generator","pipelineId":"p",`+
				`"config":{"settings":{"password":%q,"rate":"-1"}}}`, secret)},
		{"POST", "/v1/connectors/validate",
			fmt.Sprintf(`{"type":"TYPE_SOURCE","plugin":"generator","config":{"settings":{"password":%q}}}`, secret)},
		{"GET", "/v1/connectors", ""}, {"GET", "/v1/connectors/p:src", ""}, {"GET", "/v1/pipelines/p/status", ""},
		{"GET", "/v1/pipelines/p/history", ""}, {"POST", "/v1/pipelines/p/export", ""}, {"GET", "/v1/events", ""},
		{"GET", "/metrics", ""},
	} {
		if got := w.Do(c.method, c.path, c.body); strings.Contains(got.Body, secret) || got.Status >= 500 {
			t.Errorf("%s %s: %d %s", c.method, c.path, got.Status, got.Body)
		}
	}
	w.Stop()
	if strings.Contains(w.Log(), secret) {
		t.Error("the log shows it")
	}
	if b, err := os.ReadFile(w.Path("journal")); err != nil || !strings.Contains(string(b), secret) {
		t.Errorf("the plugin did not get it: %s, error %v", b, err)
	}
}

// An address that other hosts can reach is refused unless authentication protects it.
func TestExposedAddressesNeedProtection(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"0.0.0.0:0", "[::]:0", "192.0.2.1:0", "example.com:8080"} {
		cfg := settings(t, address)
		err := agent.Run(t.Context(), quiet(cfg))
		if err == nil || !strings.Contains(err.Error(), "set api.auth.admin-token-file") ||
			!strings.Contains(err.Error(), "api.tls.client-ca-file") {
			t.Errorf("%s: error %v", address, err)
		}
	}
	for _, change := range []func(*config.API){
		func(c *config.API) { c.AllowUnauthenticated = true },
		func(c *config.API) { c.Auth.AdminTokenFile = agenttest.SecretFile(t, "s3cret") },
	} {
		ctx, stop := context.WithCancel(t.Context())
		cfg := settings(t, "0.0.0.0:0")
		change(&cfg.API)
		options := quiet(cfg)
		options.Started = func(*agent.Agent) { stop() }
		if err := agent.Run(ctx, options); err != nil {
			t.Errorf("protected, or said to need none: %v", err)
		}
		stop()
	}
	cfg := settings(t, "127.0.0.1:0")
	cfg.API.Auth.AdminTokenFile = agenttest.SecretFile(t, " \n")
	if err := agent.Run(t.Context(), quiet(cfg)); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("a token that is empty: error %v", err)
	}
}

// Tokens that protect less than they seem to are reported.
func TestTokensThatProtectLittle(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what, read, admin string
		mode              os.FileMode
		words             string
	}{
		{"one token", "s3cret", "s3cret", 0o600, "the read token equals the admin token"},
		{"a file that all can read", "r", "s3cret", 0o644, "every user of this machine can read a token"},
		{"as they should be", "r", "s3cret", 0o640, ""},
	} {
		cfg := settings(t, "127.0.0.1:0")
		cfg.API.Auth.ReadTokenFile = agenttest.SecretFile(t, c.read)
		cfg.API.Auth.AdminTokenFile = agenttest.SecretFile(t, c.admin)
		if err := os.Chmod(cfg.API.Auth.AdminTokenFile, c.mode); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		ctx, stop := context.WithCancel(t.Context())
		options := agent.Options{Config: cfg, Plugins: parts.Plugins(),
			References: reference.Kinds(), Cluster: parts.Cluster(),
			Log:     slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})),
			Started: func(*agent.Agent) { stop() }}
		if err := agent.Run(ctx, options); err != nil {
			t.Error(err)
		}
		stop()
		if text := log.String(); !strings.Contains(text, c.words) || c.words == "" && strings.Contains(text, "token") ||
			strings.Contains(text, "s3cret") {
			t.Errorf("%s: %s", c.what, text)
		}
	}
}

// quiet runs an agent without a log.
func quiet(cfg config.Config) agent.Options {
	return agent.Options{Config: cfg, Plugins: parts.Plugins(),
		References: reference.Kinds(), Cluster: parts.Cluster(),
		Log: slog.New(slog.DiscardHandler)}
}

// settings returns the settings of an agent in a separate directory.
func settings(t *testing.T, address string) config.Config {
	t.Helper()
	dir := agenttest.NewDir(t)
	cfg, _, err := config.Load(config.Sources{Path: agenttest.SecretFile(t, "")})
	if err != nil {
		t.Fatal(err)
	}
	cfg.DB.SQLite.Path, cfg.Pipelines.Path, cfg.Connectors.Path = filepath.Join(dir, "conduit.db"),
		filepath.Join(dir, "pipelines"), filepath.Join(dir, "connectors")
	cfg.API.HTTP.Address = address
	return cfg
}

// An agent that listens on all addresses does not accept them as host names.
func TestListeningOnAllAddresses(t *testing.T) {
	t.Parallel()
	w := startWeb(t, "", func(c *config.Config) { c.API.HTTP.Address, c.API.AllowUnauthenticated = "0.0.0.0:0", true })
	_, port, err := net.SplitHostPort(w.Address())
	if err != nil {
		t.Fatal(err)
	}
	w.API.URL = "http://127.0.0.1:" + port
	for host, want := range map[string]int{"127.0.0.1:" + port: 200, "localhost": 200, "0.0.0.0:" + port: 421,
		"0.0.0.0": 421, "[::]:" + port: 421} {
		if got := w.Do("GET", "/v1/pipelines", "", "Host", host); got.Status != want {
			t.Errorf("Host %s: %d %s, want %d", host, got.Status, got.Body, want)
		}
	}
}

// Guessing tokens is rate-limited, and does not lock out clients that have a valid token.
func TestGuessingTokens(t *testing.T) {
	t.Parallel()
	w := startWeb(t, "", func(c *config.Config) { c.API.Auth.AdminTokenFile = agenttest.SecretFile(t, "admin") })
	guess := func() int { return w.Do("GET", "/v1/pipelines", "", "Authorization", "Bearer guess").Status }
	n := 0
	for ; guess() == 401 && n < 1000; n++ {
	}
	if got := w.Do("GET", "/v1/pipelines", "", "Authorization", "Bearer guess"); n < 10 || n == 1000 ||
		got.Status == 429 && got.Header.Get("Retry-After") == "" {
		t.Errorf("after %d guesses: %d %s", n, got.Status, got.Body)
	}
	if got := w.Do("GET", "/v1/pipelines", "", "Authorization", "Bearer admin"); got.Status != 200 {
		t.Errorf("a valid token: %d %s", got.Status, got.Body)
	}
}

func TestTokensOfAnAgent(t *testing.T) {
	t.Parallel()
	w := startWeb(t, "", func(c *config.Config) {
		c.API.Auth = config.Auth{ReadTokenFile: agenttest.SecretFile(t, "reader\n"),
			AdminTokenFile: agenttest.SecretFile(t, "admin\n")}
	})
	w.Save("p.yaml", agenttest.Generated(w.Dir, "p", 100, ""))
	w.WaitPhase("p", spec.PhaseRunning, 1)
	upgrade := []string{"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13",
		"Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="}
	for _, c := range []struct {
		method, path  string
		headers       []string
		none, rd, adm int
	}{
		{"GET", "/v1/pipelines", nil, 401, 200, 200},
		{"GET", "/v1/events", nil, 401, 200, 200},
		{"GET", "/metrics", nil, 401, 200, 200},
		{"GET", "/v1/connectors/p:src/inspect", upgrade, 401, 101, 101},
		{"POST", "/v1/pipelines/p/restart", nil, 401, 403, 200},
		{"DELETE", "/v1/pipelines/nope", nil, 401, 403, 404},
		{"GET", "/healthz", nil, 200, 200, 200},
		{"GET", "/readyz", nil, 200, 200, 200},
		{"GET", "/openapi/openapi.json", nil, 200, 200, 200},
	} {
		for token, want := range map[string]int{"": c.none, "wrong": c.none, "reader": c.rd, "admin": c.adm} {
			headers := append([]string{"Authorization", "Bearer " + token}, c.headers...)
			if c.headers != nil { // as a browser sends it
				headers = append([]string{"Sec-WebSocket-Protocol", "conduit, bearer." + token}, c.headers...)
			}
			if got := w.doBriefly(c.method, c.path, headers...); got != want {
				t.Errorf("%s %s with token %q: %d, want %d", c.method, c.path, token, got, want)
			}
		}
	}
	w.Stop()
	if log := w.Log(); strings.Contains(log, "reader") || strings.Contains(log, "bearer.") {
		t.Error("a token is in the log")
	}
}

// doBriefly returns the status of an answer without waiting for its end.
func (w *web) doBriefly(method, path string, headers ...string) int {
	w.T.Helper()
	r, err := http.NewRequestWithContext(w.T.Context(), method, w.API.URL+path, nil)
	if err != nil {
		w.T.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		w.T.Fatal(err)
	}
	response.Body.Close()
	return response.StatusCode
}

// Profiles are served when the settings enable them, to the admin token only.
func TestProfilesOfAnAgent(t *testing.T) {
	t.Parallel()
	for _, debug := range []bool{false, true} {
		w := startWeb(t, "", func(c *config.Config) {
			c.API.Debug, c.API.Auth.AdminTokenFile = debug, agenttest.SecretFile(t, "admin")
		})
		const path = "/debug/pprof/goroutine?debug=1"
		if status := w.doBriefly("GET", path); status != http.StatusUnauthorized && debug || status == http.StatusOK {
			t.Errorf("debug %v: without a token: %d", debug, status)
		}
		want := http.StatusNotFound
		if debug {
			want = http.StatusOK
		}
		if status := w.doBriefly("GET", path, "Authorization", "Bearer admin"); status != want {
			t.Errorf("debug %v: with the token: %d, want %d", debug, status, want)
		}
	}
}
