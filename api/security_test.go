package api_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

func TestRequestsFromElsewhere(t *testing.T) {
	s := newServer(newWorld(t))
	s.Hosts = []string{"box.example:8080", "0.0.0.0"}
	h := s.Handler()
	const body = `{"config":{"name":"n"}}`
	for _, c := range []struct {
		what    string
		headers []string
		status  int
	}{
		{"localhost", []string{"Host", "localhost:8080"}, 200},
		{"loopback", []string{"Host", "127.0.0.1:1"}, 200},
		{"loopback v6", []string{"Host", "[::1]:8080"}, 200},
		{"configured", []string{"Host", "BOX.example."}, 200},
		{"rebound name", []string{"Host", "evil.example:8080"}, 421},
		{"other address", []string{"Host", "192.0.2.1"}, 421},
		{"no host", []string{"Host", ""}, 421},
		{"any address", []string{"Host", "0.0.0.0:8080"}, 421},
		{"any address in IPv6", []string{"Host", "[::]:8080"}, 421},
		{"another site", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"another origin", []string{"Origin", "http://evil.example"}, 403},
		{"own origin", []string{"Origin", "http://localhost:8080"}, 200},
		{"form of a page", []string{"Content-Type", "application/x-www-form-urlencoded", "Origin",
			"http://localhost:8080"}, 415},
		{"text of a page", []string{"Content-Type", "text/plain", "Sec-Fetch-Site", "same-origin"}, 415},
		{"no type, of a page", []string{"Content-Type", "", "Sec-Fetch-Mode", "no-cors"}, 415},
		{"form as curl -d sends it", []string{"Content-Type", "application/x-www-form-urlencoded"}, 200},
		{"no type", []string{"Content-Type", ""}, 200},
		{"compressed", []string{"Content-Encoding", "gzip"}, 415},
	} {
		if got := do(h, "POST", "/v1/connectors/validate", `{"type":"TYPE_SOURCE","plugin":"generator","config":{}}`,
			c.headers...); got.status != c.status {
			t.Errorf("%s: %d %s, want %d", c.what, got.status, got.body, c.status)
		}
	}
	upgrade := []string{"Connection", "Upgrade", "Upgrade", "websocket", "Origin", "http://evil.example"}
	if got := do(h, "GET", "/v1/connectors/a:gen/inspect", "", upgrade...); got.reason() != rest.ReasonOrigin {
		t.Errorf("WebSocket of another site: %d %s", got.status, got.body)
	}
	large := `{"config":{"name":"` + strings.Repeat("x", 1<<20) + `"}}`
	if got := do(h, "POST", "/v1/pipelines", large); got.status != 413 {
		t.Errorf("large body: %d", got.status)
	}
	if got := do(h, "POST", "/v1/pipelines/import", "pipelines: []", "Content-Type", "text/yaml", "Origin",
		"http://localhost:8080"); got.status != 415 || !strings.Contains(string(got.body), "application/yaml") {
		t.Errorf("import of another type: %d %s", got.status, got.body)
	}
	got := do(h, "PUT", "/v1/pipelines", body)
	if allow := got.header.Get("Allow"); got.status != 405 || !strings.Contains(allow, "GET") ||
		!strings.Contains(allow, "POST") {
		t.Errorf("wrong method: %d, Allow: %s", got.status, allow)
	}
	if got := do(h, "OPTIONS", "/v1/pipelines", ""); got.status != 405 ||
		strings.Contains(got.header.Get("Allow"), "OPTIONS") {
		t.Errorf("OPTIONS: %d, Allow: %s", got.status, got.header.Get("Allow"))
	}
	if got := do(h, "POST", "/v1/pipelines/p", body); got.status != 405 ||
		got.header.Get("Allow") != "DELETE, GET, HEAD, PUT" {
		t.Errorf("wrong method next to a word: %d, Allow: %s", got.status, got.header.Get("Allow"))
	}
}

func TestTokens(t *testing.T) {
	w := newWorld(t)
	w.fromFile("a.yaml", pipelineOf("a", spec.StatusRunning))
	s := newServer(w)
	s.Tokens = withTokens("reader", "admin")
	h := s.Handler()
	for _, c := range []struct {
		method, path, token string
		status              int
	}{
		{"GET", "/v1/pipelines", "", 401},
		{"GET", "/v1/pipelines", "wrong", 401},
		{"GET", "/v1/pipelines", "reader", 200},
		{"GET", "/v1/pipelines", "admin", 200},
		{"POST", "/v1/pipelines/a/stop", "reader", 403},
		{"POST", "/v1/pipelines/a/stop", "", 401},
		{"POST", "/v1/pipelines/a/stop", "admin", 200},
		{"GET", "/metrics", "", 401},
		{"GET", "/healthz", "", 200},
		{"GET", "/readyz", "", 200},
		{"GET", "/openapi/", "", 200},
	} {
		got := do(h, c.method, c.path, "", "Authorization", "Bearer "+c.token)
		if got.status != c.status || (got.status == 401) != (got.header.Get("WWW-Authenticate") != "") {
			t.Errorf("%s %s with %q: %d, want %d", c.method, c.path, c.token, got.status, c.status)
		}
		if wrong := c.token == "wrong"; strings.Contains(string(got.body), "the token is wrong") != wrong {
			t.Errorf("with %q: %s", c.token, got.body)
		}
	}
}

// The log has the status of every answer, even if the handler relies on the default of 200.
func TestRequestsAreLogged(t *testing.T) {
	var log bytes.Buffer
	s := newServer(newWorld(t))
	s.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("# metrics\n")) })
	for path, status := range map[string]string{"/metrics": "status=200", "/v1/pipelines/nope": "status=404"} {
		log.Reset()
		if do(s.Handler(), "GET", path, ""); !strings.Contains(log.String(), status) {
			t.Errorf("%s: %s", path, &log)
		}
	}
}

func TestPanicsAreAnswered(t *testing.T) {
	w := newWorld(t)
	s := newServer(w)
	s.Metrics = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("oh") })
	if got := do(s.Handler(), "GET", "/metrics", ""); got.status != 500 || got.reason() != rest.ReasonInternal {
		t.Errorf("%d %s", got.status, got.body)
	}
	if n := s.Stats().Panics; n != 1 {
		t.Errorf("%d panics counted", n)
	}
	if got := do(s.Handler(), "GET", "/healthz?pretty", ""); got.status != 200 ||
		!strings.Contains(string(got.body), "\n  ") {
		t.Errorf("afterwards: %d %s", got.status, got.body)
	}
}

func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.fromFile("a.yaml", pipelineOf("a", spec.StatusRunning))
		h := newServer(w).Handler()
		w.frozen = true
		if got := do(h, "POST", "/v1/pipelines/a/stop?wait=50ms", ""); got.status != 504 {
			t.Errorf("stop that takes long: %d %s", got.status, got.body)
		}
		if got := do(h, "POST", "/v1/pipelines/a/stop?wait=0", ""); got.status != 200 {
			t.Errorf("stop without waiting: %d %s", got.status, got.body)
		}
		answered := make(chan call, 1)
		go func() { answered <- do(h, "POST", "/v1/pipelines/a/stop", "") }()
		synctest.Wait()
		select {
		case got := <-answered:
			t.Errorf("stop answered %d before the pipeline stopped", got.status)
		default:
		}
		w.thaw()
		if got := <-answered; got.status != 200 {
			t.Errorf("stop: %d %s", got.status, got.body)
		}
		broken := pipelineOf("b", spec.StatusStopped)
		broken.Description = "broken"
		w.fromFile("b.yaml", broken)
		if got := do(h, "POST", "/v1/pipelines/b/start", ""); got.reason() != rest.ReasonPipelineStartFailed ||
			!strings.Contains(string(got.body), "cannot open source") {
			t.Errorf("start that fails: %d %s", got.status, got.body)
		}
	})
}

// TestProfilesNeedTheAdminToken requests profiles with and without the required token and setting.
func TestProfilesNeedTheAdminToken(t *testing.T) {
	for _, test := range []struct {
		what        string
		debug, have bool
		admin, sent string
		status      int
		says        string
	}{
		{"off", false, true, "admin", "admin", 404, "api.debug"},
		{"not in the binary", true, false, "admin", "admin", 404, "the full binary, conduit, serves them"},
		{"on, without tokens", true, true, "", "", 403, "api.auth.admin-token-file"},
		{"on, no token sent", true, true, "admin", "", 401, ""},
		{"on, the read token", true, true, "admin", "reader", 403, ""},
		{"on, the admin token", true, true, "admin", "admin", 200, "goroutine profile"},
	} {
		s := newServer(newWorld(t))
		s.Debug = test.debug
		if test.have {
			s.Profiles = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, "goroutine profile")
			})
		}
		if test.admin != "" {
			s.Tokens = withTokens("reader", test.admin)
		}
		for _, path := range []string{"/debug/pprof/", "/debug/pprof/goroutine?debug=1", "/debug/pprof/cmdline"} {
			got := do(s.Handler(), "GET", path, "", "Authorization", "Bearer "+test.sent)
			if got.status != test.status || strings.Contains(path, "debug=1") &&
				!strings.Contains(string(got.body), test.says) {
				t.Errorf("%s: %s: %d %.200s", test.what, path, got.status, got.body)
			}
		}
	}
}

// TestTheRootIsThePage opens the page that a browser loads first, which needs no token.
func TestTheRootIsThePage(t *testing.T) {
	h := newServer(newWorld(t)).Handler()
	got := do(h, "GET", "/", "")
	if got.status != 200 || !bytes.Contains(got.body, []byte("ui/app.js")) ||
		!strings.Contains(got.header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("%d %v %s", got.status, got.header, got.body)
	}
	if got := do(h, "GET", "/ui/app.js", ""); got.status != 200 ||
		!strings.HasPrefix(got.header.Get("Content-Type"), "text/javascript") {
		t.Errorf("%d %v", got.status, got.header)
	}
	if got := do(h, "GET", "/ui/none.js", ""); got.status != 404 {
		t.Errorf("a file that is not there: %d", got.status)
	}
}

// TestPagesOfOtherSites sends the requests of browsers for pages of this and of other sites.
func TestPagesOfOtherSites(t *testing.T) {
	s := newServer(newWorld(t))
	s.Origins = []string{"https://ui.example"}
	h := s.Handler()
	fetch := func(site string, more ...string) []string {
		return append([]string{"Sec-Fetch-Site", site, "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "empty"}, more...)
	}
	navigate := func(dest string) []string {
		return []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", dest}
	}
	for _, c := range []struct {
		what    string
		headers []string
		status  int
	}{
		{"no browser", nil, 200},
		{"a page of this server", fetch("same-origin"), 200},
		{"typed by a person", fetch("none"), 200},
		{"another site", fetch("cross-site"), 403},
		{"another port", fetch("same-site"), 403},
		{"another site, its origin like ours", fetch("cross-site", "Origin", "http://localhost:8080"), 403},
		{"a link", navigate("document"), 200},
		{"a frame", navigate("iframe"), 403},
		{"an old browser", []string{"Origin", "http://evil.example"}, 403},
		{"a page of a file", []string{"Origin", "null"}, 403},
		{"an allowed origin", fetch("cross-site", "Origin", "https://ui.example"), 200},
		{"nearly an allowed origin", fetch("cross-site", "Origin", "https://ui.example.evil"), 403},
	} {
		got := do(h, "GET", "/v1/pipelines", "", c.headers...)
		if got.status != c.status {
			t.Errorf("%s: %d %s, want %d", c.what, got.status, got.body, c.status)
		}
		shared := got.header.Get("Access-Control-Allow-Origin")
		if want := map[bool]string{true: "https://ui.example"}[c.what == "an allowed origin"]; shared != want ||
			got.header.Get("Vary") != "Origin" {
			t.Errorf("%s: shared with %q, want %q; Vary: %s", c.what, shared, want, got.header.Get("Vary"))
		}
	}
	ask := func(origin string) call {
		return do(h, "OPTIONS", "/v1/pipelines", "", "Origin", origin, "Sec-Fetch-Site", "cross-site",
			"Access-Control-Request-Method", "POST")
	}
	if got := ask("https://ui.example"); got.status != 204 ||
		!strings.Contains(got.header.Get("Access-Control-Allow-Methods"), "POST") ||
		!strings.Contains(got.header.Get("Access-Control-Allow-Headers"), "Authorization") {
		t.Errorf("preflight of an allowed origin: %d %v", got.status, got.header)
	}
	if got := ask("http://evil.example"); got.status != 403 || got.header.Get("Access-Control-Allow-Methods") != "" {
		t.Errorf("preflight of another origin: %d %v", got.status, got.header)
	}
	write := do(h, "POST", "/v1/pipelines", `{"config":{"name":"n"}}`, "Origin", "https://ui.example", "Sec-Fetch-Site",
		"cross-site")
	if write.status != 200 || write.header.Get("Access-Control-Expose-Headers") == "" {
		t.Errorf("write of an allowed origin: %d %v", write.status, write.header)
	}
}

// TestPatternsAreBounded sends regular expressions that would take much memory.
func TestPatternsAreBounded(t *testing.T) {
	h := newServer(newWorld(t)).Handler()
	for pattern, status := range map[string]int{
		"builtin:.*":                            200,
		"(generator|log|file){1,3}":             200,
		strings.Repeat("a", 512):                200,
		strings.Repeat("a", 513):                400,
		strings.Repeat("(x{1000})", 50):         400,
		"((a{10}){10}){10}":                     400,
		`[\pL\pN]{1000}`:                        400,
		strings.Repeat(`\pL{1000}`, 1400)[:510]: 400,
		"a)|(?:b":                               400,
	} {
		for _, path := range []string{"/v1/connectors/plugins", "/v1/pipelines", "/v1/processors/plugins"} {
			got := do(h, "GET", path+"?name="+url.QueryEscape(pattern), "")
			if got.status != status {
				t.Errorf("%s %.40s: %d %s, want %d", path, pattern, got.status, got.body, status)
			}
		}
	}
}
