package api

import (
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/julienschmidt/httprouter"

	"github.com/conduit-agent/conduit/api/guard"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/api/web"
)

// handle answers a request with a body, or with an error. When both are nil it has written the answer itself.
type handle func(w http.ResponseWriter, r *http.Request) (any, error)

// route is an operation and its handler.
type route struct {
	operation
	handle handle
	need   guard.Role
	media  []string // of bodies, in addition to JSON
}

// reserved are paths that end in a word where other paths have an id.
var reserved = []string{"/v1/pipelines/import", "/v1/pipelines/plan", "/v1/pipelines/apply",
	"/v1/connectors/plugins", "/v1/connectors/validate", "/v1/processors/plugins"}

// router dispatches requests to the routes. The tree of httprouter cannot distinguish a word from an id, so those paths
// share a node and are distinguished here.
func (s *Server) router(base shared) http.Handler {
	router := httprouter.New()
	router.RedirectTrailingSlash, router.RedirectFixedPath, router.HandleOPTIONS = false, false, false
	router.NotFound = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.fail(w, r, notFound()) })
	router.MethodNotAllowed = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		allow := strings.Split(w.Header().Get("Allow"), ", ") // of the router, which adds OPTIONS always
		allow = slices.DeleteFunc(allow, func(method string) bool { return method == http.MethodOptions })
		w.Header().Set("Allow", strings.Join(allow, ", "))
		s.fail(w, r, methodNotAllowed(r))
	})
	routes := s.routes(base)
	nodes := map[string]map[string]*route{} // "METHOD /pattern" → word, or "" for an id
	for i := range routes {
		rt := &routes[i]
		pattern, word := node(rt.Path)
		for _, method := range methods(rt) {
			key := method + " " + pattern
			if nodes[key] == nil {
				nodes[key] = map[string]*route{}
				router.Handle(method, pattern, s.dispatch(nodes[key], func() string { return allowed(nodes, pattern) }))
			}
			nodes[key][word] = rt
		}
	}
	s.explorer(router)
	s.docs(router)
	s.profile(base, router)
	s.mcp(router)
	s.page(router)
	return router
}

// node returns the pattern that the tree has for a path, and the word that it ends in.
func node(path string) (pattern, word string) {
	if slices.Contains(reserved, path) {
		last := strings.LastIndexByte(path, '/') + 1
		return path[:last] + ":id", path[last:]
	}
	return strings.NewReplacer("{", ":", "}", "").Replace(path), ""
}

// methods returns the methods of a route. A stream does not support HEAD.
func methods(rt *route) []string {
	if rt.Method == http.MethodGet && !rt.Streaming {
		return []string{http.MethodGet, http.MethodHead}
	}
	return []string{rt.Method}
}

func methodNotAllowed(r *http.Request) error {
	return rest.Errorf(rest.MethodNotAllowed, rest.ReasonMethod, "method %.20q is not allowed here", r.Method)
}

// allowed lists the methods that are possible where pattern has an id.
func allowed(nodes map[string]map[string]*route, pattern string) string {
	var all []string
	for key, words := range nodes {
		if method, at, _ := strings.Cut(key, " "); at == pattern && words[""] != nil {
			all = append(all, method)
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// dispatch serves one node of the tree. allow lists the methods possible for ids there.
func (s *Server) dispatch(words map[string]*route, allow func() string) httprouter.Handle {
	return func(w http.ResponseWriter, r *http.Request, params httprouter.Params) {
		rt := words[params.ByName("id")]
		if rt == nil {
			rt = words[""]
		}
		if rt == nil {
			w.Header().Set("Allow", allow())
			s.fail(w, r, methodNotAllowed(r))
			return
		}
		for _, p := range params {
			r.SetPathValue(p.Key, p.Value)
		}
		s.serve(rt, w, r)
	}
}

// serve performs the checks common to all routes and calls the handler of the route.
func (s *Server) serve(rt *route, w http.ResponseWriter, r *http.Request) {
	err := s.guard.Authorize(r, rt.need)
	if err == nil && s.Down != nil && !slices.Contains(ofAgent, rt.ID) {
		err = rest.Errorf(rest.Unavailable, rest.ReasonStore, "the agent is waiting, and no pipeline runs: %v", s.Down)
	}
	if err == nil {
		err = checkMedia(r, rt.media...)
	}
	if err == nil {
		err = checkQuery(r, rt.parameters())
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	once := s.requests.Once
	if rt.need < guard.Admin { // no change, so repeating it is harmless
		once = func(w http.ResponseWriter, r *http.Request, do func(http.ResponseWriter, *http.Request)) { do(w, r) }
	}
	once(w, r, func(w http.ResponseWriter, r *http.Request) {
		if rt.Request == nil {
			discard(r)
		}
		body, err := rt.handle(w, r)
		switch {
		case err != nil:
			s.fail(w, r, err)
		case body != nil:
			answerJSON(w, r, http.StatusOK, body)
		}
	})
}

// maxUnread is the maximum size of a body sent to an operation that has none.
const maxUnread = 64 << 10

// discard reads the body, such as {}, of a request whose operation has none: when there are too many connections, a
// connection with an incompletely read request is closed.
func discard(r *http.Request) {
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, maxUnread))
	}
}

// ofAgent are the operations available while the agent waits for its store.
var ofAgent = []string{"getHealth", "getReadiness", "getInfo", "getAgent"}

// parameters returns the names of the parameters of the query.
func (rt *route) parameters() []string {
	names := []string{"pretty"}
	for _, p := range rt.Query {
		names = append(names, p.Name)
	}
	return names
}

// document is the OpenAPI document, which is the same for all servers but the version.
var document = sync.OnceValue(func() []byte {
	var all []operation
	routes := new(Server).routes(shared{})
	for i := range routes {
		all = append(all, documented(&routes[i]))
	}
	failures := map[int]any{}
	for _, e := range exampleErrors {
		failures[e.HTTP] = e.Body()
	}
	return openAPI("conduit API", "v1",
		"Pipelines, connectors and processors of a conduit agent, their state, and their records. "+
			"Lists are ordered by id. Errors have the form of google.rpc.Status. ?pretty indents responses.",
		all, pathIDs, failures)
})

// pathIDs describes the parameters in paths.
var pathIDs = map[string]param{
	"/v1/pipelines/{id}": {Description: "id of the pipeline", Example: exampleRates.ID},
	"/v1/connectors/{id}": {Description: "id of the connector, with the id of the pipeline",
		Example: exampleConnector.ID},
	"/v1/processors/{id}": {Description: "id of the processor, with the ids of the parents",
		Example: exampleProcessor.ID},
	"/v1/pipelines/{id}/dead-letters/{letter}": {Description: "number of the dead letter",
		Example: strconv.FormatInt(exampleDeadLetter.ID, 10)},
}

// documented returns the operation of a route with the errors common to all routes.
func documented(rt *route) operation {
	o := rt.operation
	errors := []int{http.StatusForbidden, http.StatusMisdirectedRequest, http.StatusInternalServerError,
		http.StatusServiceUnavailable}
	if rt.need > guard.None {
		errors = append(errors, http.StatusUnauthorized, http.StatusTooManyRequests)
	}
	if o.Request != nil {
		errors = append(errors, http.StatusBadRequest, http.StatusRequestEntityTooLarge,
			http.StatusUnsupportedMediaType)
	}
	errors = append(errors, o.Errors...)
	slices.Sort(errors)
	o.Errors = slices.Compact(errors)
	if slices.Contains(rt.media, mediaYAML) {
		o.Also = map[string]string{mediaYAML: exampleFile}
	}
	return o
}

func (s *Server) metrics(w http.ResponseWriter, r *http.Request) (any, error) {
	if s.Metrics == nil {
		return nil, notFound()
	}
	s.Metrics.ServeHTTP(w, r)
	return nil, nil
}

// page serves the web UI. Its files hold no data, so they need no token.
func (s *Server) page(router *httprouter.Router) {
	serve := func(w http.ResponseWriter, r *http.Request, params httprouter.Params) {
		if !web.Serve(w, r, params.ByName("file")) {
			s.fail(w, r, notFound())
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		router.Handle(method, "/", serve)
		router.Handle(method, "/ui/:file", serve)
	}
}
