package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// writeTimeout is how long a client may take to receive an answer.
const writeTimeout = 30 * time.Second

// answerJSON writes v as JSON with the status.
func answerJSON(w http.ResponseWriter, r *http.Request, status int, v any) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if r.URL.Query().Has("pretty") {
		encoder.SetIndent("", "  ")
	}
	if err := encoder.Encode(v); err != nil {
		panic(err) // bodies consist of JSON types
	}
	writeAnswer(w, status, "application/json", b.Bytes())
}

// writeAnswer writes an answer that no cache may keep.
func writeAnswer(w http.ResponseWriter, status int, contentType string, body []byte) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout)) // not every writer can
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client is gone
}

// setGeneration sets the response header with the generation of d's pipeline.
func setGeneration(w http.ResponseWriter, d *spec.Declaration) {
	w.Header().Set(rest.HeaderGeneration, strconv.FormatInt(d.Generation, 10))
}

// fail answers with the error. Internal errors are logged.
func fail(log *slog.Logger, w http.ResponseWriter, r *http.Request, err error) {
	e := restError(log, r, err)
	switch e.HTTP {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="conduit"`)
	case http.StatusServiceUnavailable, http.StatusTooManyRequests, http.StatusConflict:
		if e.HTTP == http.StatusConflict && e.Kind != rest.Aborted {
			break // a retry would have the same result
		}
		w.Header().Set("Retry-After", "1")
	}
	answerJSON(w, r, e.HTTP, e.Body())
}

// restError returns err in the form for the client.
func restError(log *slog.Logger, r *http.Request, err error) *rest.Error {
	if e := known(err); e != nil {
		return e
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return rest.Errorf(rest.DeadlineExceeded, rest.ReasonTimeout, "the request ended before the operation "+
			"completed")
	}
	switch {
	case errors.Is(err, spec.ErrBusy), errors.Is(err, spec.ErrConflict):
		return rest.Errorf(rest.Aborted, rest.ReasonBusy, "%v", err).Suggest("try again")
	case errors.Is(err, spec.ErrNotFound):
		return rest.Errorf(rest.NotFound, rest.ReasonNotFound, "%v", err)
	}
	log.Error("cannot answer request", "method", r.Method, "path", r.URL.EscapedPath(), "err", err)
	return rest.Errorf(rest.Internal, rest.ReasonInternal, "%v", err)
}

// kinds maps the kinds of errors of the agent to those of the API.
var kinds = map[error]rest.Kind{
	spec.ErrInvalid: rest.InvalidArgument, spec.ErrPrecondition: rest.FailedPrecondition, spec.ErrBusy: rest.Aborted,
	spec.ErrConflict: rest.Aborted, spec.ErrNotFound: rest.NotFound, spec.ErrExists: rest.AlreadyExists,
	spec.ErrExhausted: rest.ResourceExhausted, spec.ErrUnavailable: rest.Unavailable,
}

// known returns err in the form for the client if it has a kind and a code, nil otherwise.
func known(err error) *rest.Error {
	var e *rest.Error
	if errors.As(err, &e) {
		return e
	}
	var failure *spec.Error
	if !errors.As(err, &failure) {
		return nil
	}
	return rest.Errorf(kinds[failure.Kind], failure.Code, "%s", failure.Message).With("configPath", failure.Field).
		With("pipelineId", failure.Pipeline).With("suggestion", failure.Suggestion)
}

// notFound returns the error for an unknown path.
func notFound() *rest.Error {
	return rest.Errorf(rest.NotFound, rest.ReasonNotFound,
		"no such path").Suggest("/openapi/ lists all operations")
}
