package api

import (
	"log/slog"
	"net/http"
	"sync"

	"github.com/julienschmidt/httprouter"

	"github.com/conduit-agent/conduit/api/guard"
)

// ToolServer returns a handler of the Model Context Protocol. Its tools send their requests to api with the identity of
// the client that calls them. A client for which admin returns false has only tools for readers. Tools that change
// pipelines exist only with write.
type ToolServer func(
	api http.Handler, version string, admin func(*http.Request) bool, write bool, log *slog.Logger,
) http.Handler

// The values of Server.Tools. Any other turns the tools off.
const (
	ToolsRead  = "read"
	ToolsWrite = "write"
)

// mcp serves the tools. The handler is made for the first request: most agents never get one.
func (s *Server) mcp(router *httprouter.Router) {
	var once sync.Once
	var handler http.Handler
	router.POST("/mcp", func(w http.ResponseWriter, r *http.Request, _ httprouter.Params) {
		err := s.guard.Authorize(r, guard.Read)
		switch {
		case err != nil:
		case s.Tools != ToolsRead && s.Tools != ToolsWrite:
			err = notFound().Suggest("tools are disabled: set api.mcp: read")
		case s.ToolServer == nil:
			err = notFound().Suggest("this binary has no MCP server; the full binary, conduit, has one")
		default:
			err = checkMedia(r)
		}
		if err != nil {
			s.fail(w, r, err)
			return
		}
		once.Do(func() {
			admin := func(r *http.Request) bool { return s.guard.RoleOf(r) == guard.Admin }
			handler = s.ToolServer(s.handler, s.Version, admin, s.Tools == ToolsWrite, s.log)
		})
		handler.ServeHTTP(w, r)
	})
}
