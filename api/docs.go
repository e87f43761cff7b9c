package api

import (
	"net/http"
	"path"

	"github.com/julienschmidt/httprouter"

	"github.com/conduit-agent/conduit/api/web"
)

// docsTypes are the media types of the documentation, by the ending of the name.
var docsTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".md": "text/markdown; charset=utf-8", ".txt": "text/plain; charset=utf-8",
}

// docs serves the documentation, which holds no data of the agent and needs no token.
func (s *Server) docs(router *httprouter.Router) {
	serve := func(w http.ResponseWriter, r *http.Request, params httprouter.Params) {
		name := params.ByName("file")
		if name == "" {
			name = "index.html"
		}
		var content []byte
		found := s.Docs != nil
		if found {
			content, found = s.Docs(name)
		}
		if !found {
			s.fail(w, r, notFound())
			return
		}
		w.Header().Set("Content-Security-Policy", web.ContentSecurityPolicy)
		writeAnswer(w, http.StatusOK, docsTypes[path.Ext(name)], content)
	}
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		router.Handle(method, "/docs/", serve)
		router.Handle(method, "/docs/:file", serve)
		router.Handler(method, "/docs", http.RedirectHandler("/docs/", http.StatusFound))
	}
}
