package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// writeTimeout is how long a client may take to receive an answer.
const writeTimeout = 30 * time.Second

// answer writes v as JSON with the status.
func answer(w http.ResponseWriter, r *http.Request, status int, v any) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if r.URL.Query().Has("pretty") {
		encoder.SetIndent("", "  ")
	}
	if err := encoder.Encode(v); err != nil {
		panic(err) // bodies consist of what JSON can say
	}
	write(w, status, "application/json", b.Bytes())
}

func write(w http.ResponseWriter, status int, contentType string, body []byte) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout)) // not every writer can
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body) // nobody is left to tell
}

// tell says in the answer which generation of its pipeline d is.
func tell(w http.ResponseWriter, d *spec.Declaration) {
	w.Header().Set(rest.HeaderGeneration, strconv.FormatInt(d.Generation, 10))
}

// fail answers with the error.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	e := s.restError(r, err)
	switch e.HTTP {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="conduit"`)
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "1")
	}
	answer(w, r, e.HTTP, e.Body())
}

// restError returns err as the client sees it. What is nobody's mistake but ours is logged.
func (s *Server) restError(r *http.Request, err error) *rest.Error {
	var e *rest.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return rest.Errorf(rest.DeadlineExceeded, rest.ReasonTimeout, "the request ended before it was done")
	}
	s.log.Error("cannot answer request", "method", r.Method, "path", r.URL.EscapedPath(), "err", err)
	return rest.Errorf(rest.Internal, rest.ReasonInternal, "%v", err)
}
