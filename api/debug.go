package api

import (
	"net/http"

	"github.com/julienschmidt/httprouter"

	"github.com/conduit-agent/conduit/api/guard"
	"github.com/conduit-agent/conduit/api/rest"
)

const profiles = "/debug/pprof/"

// profile serves profiles of the agent, which reveal the content of memory.
func (s *Server) profile(base shared, router *httprouter.Router) {
	serve := func(w http.ResponseWriter, r *http.Request, _ httprouter.Params) {
		if err := s.profilable(r); err != nil {
			s.fail(w, r, err)
			return
		}
		ctx, cancel := base.Long(w, r) // a CPU profile takes as long as the request asks for
		defer cancel()
		s.Profiles.ServeHTTP(w, r.WithContext(ctx))
	}
	router.GET(profiles+"*name", serve)
	router.POST(profiles+"*name", serve)
}

// profilable returns the reason why r may not have a profile, nil if it may. Profiles require the admin token even if
// no token is set, when every client may do everything else.
func (s *Server) profilable(r *http.Request) error {
	switch {
	case !s.Debug:
		return notFound().Suggest("profiles are disabled: set api.debug: true")
	case s.Profiles == nil:
		return notFound().Suggest("this binary has no profiles; the full binary, conduit, serves them")
	case s.Tokens().Admin == "":
		return rest.Errorf(rest.PermissionDenied, rest.ReasonForbidden,
			"profiles need the admin token, which is not set").
			Suggest("set api.auth.admin-token-file")
	}
	return s.guard.Authorize(r, guard.Admin)
}
