package ui_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/browser"
	"github.com/conduit-agent/conduit/api/web"
)

// The signals and the renderer are tested without an agent, in a browser and under the policy of the page.
func TestRendererInABrowser(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch name, isFile := strings.CutPrefix(r.URL.Path, "/ui/"); {
		case isFile:
			web.Serve(w, r, name)
		case r.URL.Path == "/test.js":
			http.ServeFile(w, r, "testdata/ui_test.js")
		default:
			w.Header().Set("Content-Security-Policy", web.ContentSecurityPolicy)
			w.Header().Set("Content-Type", "text/html")
			_,
				_ = w.Write([]byte(`<!doctype html><title>test</title><body><script type="module" ` +
				`src="/test.js"></script>`))
		}
	}))
	t.Cleanup(server.Close)
	ctx := browser.Tab(t, 0)
	if err := chromedp.Do(ctx, chromedp.Navigate(server.URL)); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Run(ctx, chromedp.Poll[bool]("window.results !== undefined",
		chromedp.WithPollingTimeout(5*time.Minute))); err != nil {
		t.Fatalf("the tests do not end: %v", err)
	}
	results, err := chromedp.Run(ctx, chromedp.Evaluate[[]struct{ Name, Error string }]("window.results"))
	if err != nil {
		t.Fatal(err)
	}
	if len(results) < 10 {
		t.Fatalf("only %d tests ran", len(results))
	}
	for _, r := range results {
		if r.Error != "" {
			t.Errorf("%s: %s", r.Name, r.Error)
		}
	}
}
