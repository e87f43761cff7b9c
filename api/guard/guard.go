// Package guard decides which requests a server answers at all, and which operations a client may perform. It checks
// host names, pages of other sites, tokens, and the number of connections.
package guard

import (
	"bufio"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/conduit-agent/conduit/api/rest"
)

// Role is the permission level of a client.
type Role int

// The roles. Each includes the permissions of the previous ones.
const (
	None Role = iota
	Read
	Admin
)

// Tokens are bearer tokens. With neither token set, every client may do everything.
type Tokens struct {
	Read  string // lets read
	Admin string // lets do everything
}

// Guard protects a server. Tokens, Log and Fail must be set, before first use.
type Guard struct {
	Fail func(w http.ResponseWriter, r *http.Request, err error) // answers with the error
	// names, in addition to localhost and addresses of the machine, that may be in the Host header
	Hosts []string
	// of pages of other sites that may use the API, as browsers send them
	Origins []string
	Tokens  func() Tokens
	Log     *slog.Logger

	wrong  attempts
	panics atomic.Uint64
}

// Panics returns the number of requests that ended in a panic.
func (g *Guard) Panics() uint64 { return g.panics.Load() }

// Protect lets only requests for this server reach next. Its checks hold for every path and need no configuration.
func (g *Guard) Protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began, rec := time.Now(), &recorder{ResponseWriter: w, body: follow(r), conn: connection(r)}
		w.Header().Set("X-Request-Id", uuid.NewString())
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("X-Frame-Options", "DENY")
		w.Header().Set("Referrer-Policy", "no-referrer")
		if len(g.Origins) > 0 {
			w.Header().Add("Vary", "Origin") // for caches: answers differ between origins
		}
		defer g.finish(rec, r, began)
		switch {
		case isRejected(r):
			w.Header().Set("Connection", "close")
			g.Fail(rec, r, rest.Errorf(rest.Unavailable, rest.ReasonTooMany, "the limit of %d connections is reached",
				MaxConns).Suggest("close some, or try again later"))
		case !g.hostAllowed(r):
			g.Fail(rec, r, rest.Errorf(rest.Misdirected, rest.ReasonHost,
				"the Host header %.100q is not a name of this server", r.Host).
				Suggest("use localhost, or add the name to api.allowed-hosts"))
		case !g.sameSite(r):
			g.Fail(rec, r, rest.Errorf(rest.PermissionDenied, rest.ReasonOrigin,
				"requests from pages of other sites are refused").
				Suggest("list the origin of the page in api.http.cors.allowed-origins"))
		case g.share(rec, r):
		default:
			next.ServeHTTP(rec, r)
		}
	})
}

// isRejected reports whether there were too many connections already when the connection of r was opened.
func isRejected(r *http.Request) bool {
	c := connection(r)
	return c != nil && c.refused
}

// finish answers for a handler that panicked, and logs the request.
func (g *Guard) finish(w *recorder, r *http.Request, began time.Time) {
	if p := recover(); p != nil {
		if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(p)
		}
		g.panics.Add(1)
		g.Log.Error("request panicked", "method", r.Method, "path", r.URL.EscapedPath(), "err", p, "stack",
			string(debug.Stack()))
		if w.status == 0 {
			g.Fail(w, r, rest.Errorf(rest.Internal, rest.ReasonInternal,
				"this is a fault of the agent; see its log"))
		}
	}
	if readsLog(r) && w.status == http.StatusOK {
		return // a line about it would end the next request that waits for a line, and so on without end
	}
	who := []any{"remote", r.RemoteAddr}
	if c := connection(r); c != nil && c.peer != nil {
		who = c.peer.attributes()
	}
	level, message := slog.LevelDebug, "request"
	if mayWrite(r) { // audit trail of changes
		level, message = slog.LevelInfo, "request with side effects"
	}
	g.Log.With(who...).Log(r.Context(), level, message, "method", r.Method, "path", r.URL.EscapedPath(), "status",
		w.status,
		"duration", time.Since(began), "request_id", w.Header().Get("X-Request-Id"))
}

// readsLog reports whether r reads lines of the log.
func readsLog(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/logs")
}

// mayWrite reports whether r may change a resource: by its method, except for calls of tools, which send requests of
// their own.
func mayWrite(r *http.Request) bool {
	return r.URL.Path != "/mcp" && r.Method != http.MethodGet && r.Method != http.MethodHead &&
		r.Method != http.MethodOptions
}

// recorder remembers the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int
	body   *body // of the request; nil when it is complete
	conn   *Conn // nil when another server serves it
}

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
		r.rejectBody()
		if r.conn != nil && status != http.StatusSwitchingProtocols && r.conn.limiter.full() {
			r.Header().Set("Connection", "close") // others wait for its slot
		}
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(b)
}

// rejectBody closes the connection after an error answer to a request whose body was not read. Otherwise the server
// would wait for the rest of the body first.
func (r *recorder) rejectBody() {
	if r.body == nil || r.body.done || r.status < http.StatusBadRequest {
		return
	}
	r.Header().Set("Connection", "close")
	_ = http.NewResponseController(r.ResponseWriter).SetReadDeadline(time.Now()) // not every writer can
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// hostAllowed reports whether the Host header names this machine. A page of a host name that resolves to this machine
// by DNS rebinding sends its own name there.
func (g *Guard) hostAllowed(r *http.Request) bool {
	host := hostname(r.Host)
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		return false // on some systems pages of other sites can reach this address
	}
	if host == "localhost" || slices.ContainsFunc(g.Hosts, func(h string) bool { return hostname(h) == host }) {
		return true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	return ip.IsLoopback() && !ip.Is4In6() || ip == localIP(r)
}

// hostname returns the host of host:port in lower case, without brackets and final dot.
func hostname(hostport string) string {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// localIP returns the address that the client connected to.
func localIP(r *http.Request) netip.Addr {
	addr, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if addr == nil {
		return netip.Addr{}
	}
	ap, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}

// isUpgrade reports whether r asks for an upgrade to WebSocket.
func isUpgrade(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// Authorize returns an error unless the client has the role that an operation needs.
func (g *Guard) Authorize(r *http.Request, need Role) error {
	have := g.RoleOf(r)
	switch {
	case have >= need:
		return nil
	case Bearer(r) != "" && have == None && g.wrong.tooMany(r.RemoteAddr):
		return rest.Errorf(rest.ResourceExhausted, rest.ReasonTooMany, "too many wrong tokens came from this address").
			Suggest("send a valid token, or wait a second")
	case have == None:
		if Bearer(r) != "" {
			return rest.Errorf(rest.Unauthenticated, rest.ReasonUnauthenticated, "the token is wrong").
				Suggest("send the token that the agent was given in api.auth.read-token-file or " +
					"api.auth.admin-token-file")
		}
		return TokenNeeded()
	}
	return ReadOnly()
}

// TokenNeeded returns the error for a request without a token.
func TokenNeeded() *rest.Error {
	return rest.Errorf(rest.Unauthenticated, rest.ReasonUnauthenticated, "the request needs a token").
		Suggest("send the header Authorization: Bearer TOKEN")
}

// ReadOnly returns the error for a request that the read token does not allow.
func ReadOnly() *rest.Error {
	return rest.Errorf(rest.PermissionDenied, rest.ReasonForbidden, "this token allows only reading")
}

// RoleOf returns the role of the client. A client that may open the Unix socket may do everything.
func (g *Guard) RoleOf(r *http.Request) Role {
	if c := connection(r); c != nil && c.peer != nil {
		return Admin
	}
	tokens := g.Tokens()
	if tokens == (Tokens{}) {
		return Admin
	}
	token := Bearer(r)
	admin, read := same(token, tokens.Admin), same(token, tokens.Read)
	switch {
	case admin:
		return Admin
	case read:
		return Read
	}
	return None
}

// bearerProtocol is the sub-protocol in which a WebSocket carries a token: browsers let a page choose the sub-protocols
// of an upgrade, but no headers.
const bearerProtocol = "bearer."

// Bearer returns the token that r carries, "" for none.
func Bearer(r *http.Request) string {
	if scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	if isUpgrade(r) {
		for _, list := range r.Header.Values("Sec-WebSocket-Protocol") {
			for p := range strings.SplitSeq(list, ",") {
				if token, ok := strings.CutPrefix(strings.TrimSpace(p), bearerProtocol); ok {
					return token
				}
			}
		}
	}
	return ""
}

// same compares in constant time.
func same(token, secret string) bool {
	a, b := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(secret))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1 && secret != ""
}

// Hijack lets a WebSocket take the connection over.
func (r *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if r.status == 0 {
		r.status = http.StatusSwitchingProtocols
	}
	return http.NewResponseController(r.ResponseWriter).Hijack()
}
