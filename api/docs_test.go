package api_test

import (
	"strings"
	"testing"
)

// The documentation needs no token, and its pages load from the agent only.
func TestDocsAreServed(t *testing.T) {
	w := newWorld(t)
	s := newServer(w)
	s.Tokens = withTokens("", "admin")
	if got := do(s.Handler(), "GET", "/docs/", ""); got.status != 404 {
		t.Errorf("without documentation: %d", got.status)
	}
	s.Docs = func(name string) ([]byte, bool) { return []byte("<h1>" + name + "</h1>"), name != "nothing.html" }
	for path, media := range map[string]string{"/docs/": "text/html", "/docs/operating.html": "text/html",
		"/docs/docs.js": "text/javascript", "/docs/llms.txt": "text/plain", "/docs/operating.md": "text/markdown"} {
		got := do(s.Handler(), "GET", path, "")
		if got.status != 200 || !strings.HasPrefix(got.header.Get("Content-Type"), media) ||
			!strings.Contains(got.header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: %d %v", path, got.status, got.header)
		}
	}
	for path, status := range map[string]int{"/docs/nothing.html": 404, "/docs": 302} {
		if got := do(s.Handler(), "GET", path, ""); got.status != status {
			t.Errorf("%s: %d", path, got.status)
		}
	}
}
