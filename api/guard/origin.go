package guard

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Headers that pages of allowed origins may send and see, in addition to the headers open to every page.
const (
	corsMethods = "GET, POST, PUT, DELETE"
	corsHeaders = "Accept, Authorization, Content-Type, Idempotency-Key, If-Match, Last-Event-ID"
	corsExposed = "Conduit-Generation, ETag, Retry-After, X-Request-Id"
	corsMaxAge  = "600" // seconds for which a browser may cache the answer to a preflight request
)

// sameSite reports whether r comes from a page of this server, of an allowed origin, or from no page at all. A browser
// also sends GET requests for pages of other sites, which do not see the answer, so such a request is only let through
// when a person follows a link.
func (g *Guard) sameSite(r *http.Request) bool {
	origin, site := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
	switch {
	case g.allowed(origin):
		return true
	case isUpgrade(r) && origin != "" && !isOrigin(origin, r.Host):
		return false
	case site == "same-origin" || site == "none":
		return true
	case site != "":
		return isNavigation(r)
	}
	return origin == "" || isOrigin(origin, r.Host)
}

// isNavigation reports whether a browser sends r to replace the page it shows.
func isNavigation(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" &&
		r.Header.Get("Sec-Fetch-Dest") == "document"
}

// isOrigin reports whether origin is the origin of the pages of host.
func isOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, host)
}

// allowed reports whether pages of the origin may use the API.
func (g *Guard) allowed(origin string) bool {
	return origin != "" && slices.ContainsFunc(g.Origins, func(o string) bool { return strings.EqualFold(o, origin) })
}

// share sends the CORS headers for a page of an allowed origin. It reports whether r was a preflight request, which
// needs no other answer.
func (g *Guard) share(w http.ResponseWriter, r *http.Request) (answered bool) {
	origin := r.Header.Get("Origin")
	if !g.allowed(origin) {
		return false
	}
	w.Header().Set("Access-Control-Allow-Origin", origin)
	w.Header().Set("Access-Control-Expose-Headers", corsExposed)
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	w.Header().Set("Access-Control-Allow-Methods", corsMethods)
	w.Header().Set("Access-Control-Allow-Headers", corsHeaders)
	w.Header().Set("Access-Control-Max-Age", corsMaxAge)
	w.WriteHeader(http.StatusNoContent)
	return true
}
