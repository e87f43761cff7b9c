package api_test

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/api"
)

// TestTools requests the tools for language models with each setting and token.
func TestTools(t *testing.T) {
	tools := func(
		_ http.Handler, version string, admin func(*http.Request) bool, write bool, _ *slog.Logger,
	) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if admin(r) {
				_, _ = io.WriteString(w, "admin ")
			}
			if write {
				_, _ = io.WriteString(w, "write ")
			}
			_, _ = io.WriteString(w, version)
		})
	}
	for _, c := range []struct {
		mode   string
		server api.ToolServer
		token  string
		status int
		says   string
	}{
		{api.ToolsRead, tools, "", 401, "needs a token"},
		{"off", tools, "", 401, "needs a token"},
		{api.ToolsRead, tools, "other", 401, "wrong"},
		{api.ToolsRead, tools, "reader", 200, "v1"},
		{api.ToolsRead, tools, "admin", 200, "admin v1"},
		{api.ToolsWrite, tools, "reader", 200, "write v1"},
		{api.ToolsWrite, tools, "admin", 200, "admin write v1"},
		{"off", tools, "admin", 404, "api.mcp"},
		{"", tools, "admin", 404, "api.mcp"},
		{api.ToolsRead, nil, "admin", 404, "full binary"},
	} {
		s := newServer(newWorld(t))
		s.ToolServer, s.Tools, s.Version, s.Tokens = c.server, c.mode, "v1", withTokens("reader", "admin")
		got := do(s.Handler(), "POST", "/mcp", "{}", "Authorization", "Bearer "+c.token)
		if got.status != c.status || !strings.Contains(string(got.body), c.says) ||
			c.status == 200 && string(got.body) != c.says {
			t.Errorf("%+v: %d %s", c, got.status, got.body)
		}
		if got := do(s.Handler(), "GET", "/mcp", ""); got.status != 405 {
			t.Errorf("GET: %d", got.status)
		}
	}
}
