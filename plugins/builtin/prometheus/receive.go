package prometheus

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/snappy"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/httpclient"
	"github.com/conduit-agent/conduit/plugins/builtin/httpserver"
	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

const (
	idleTime     = 5 * time.Minute // senders keep connections
	retrySeconds = 1
)

// receiver is a source that receives remote write.
type receiver struct {
	settings *sourceSettings
	numbers  common.Numbers
	server   *httpserver.Server
	requests *common.Requests
	headers  []string // request headers that become metadata, in canonical form
	budget   int      // memory limit of a decoded request, in bytes
}

func (s *receiver) open(ctx context.Context, _ record.Position) error {
	config, err := s.settings.TLS.Server()
	if err != nil {
		return err
	}
	s.budget = sdk.Budget(ctx)
	for _, h := range s.settings.Headers {
		if h != "" {
			s.headers = append(s.headers, http.CanonicalHeaderKey(h))
		}
	}
	s.requests = common.NewRequests(ctx, s.settings.MaxRequests, s.settings.MaxBytes, s.numbers)
	mux := http.NewServeMux()
	mux.HandleFunc(s.settings.Path, s.serve)
	s.server = &httpserver.Server{Handler: mux, TLS: config, Timeout: s.settings.Timeout, Idle: idleTime,
		Connections: s.settings.Connections, Requests: s.requests, Log: sdk.Logger(ctx)}
	return s.server.Listen(ctx, s.settings.Address)
}

func (s *receiver) read(ctx context.Context) ([]record.Record, error) {
	return s.requests.Next(ctx, maxRead)
}

func (s *receiver) ack(n int) { s.requests.Ack(n) }

func (s *receiver) progress() progress.Report {
	n := s.requests.Waits()
	return progress.Report{Records: &n, At: time.Now(), Endless: true}
}

func (s *receiver) close(ctx context.Context) error {
	if s.server == nil {
		return nil
	}
	return s.server.Close(ctx)
}

// failure is the reason why a request is refused.
type failure struct {
	status  int
	message string
}

func invalid(format string, args ...any) *failure {
	return &failure{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// serve responds to a request when its records are acknowledged.
func (s *receiver) serve(w http.ResponseWriter, r *http.Request) {
	c, failed := s.receive(w, r)
	if c != nil && c.v2 { // also after a failure
		for i, name := range [...]string{samplesWritten, histogramsWritten, exemplarsWritten} {
			n := 0
			if failed == nil {
				n = c.written[i]
			}
			w.Header().Set(name, strconv.Itoa(n))
		}
	}
	if failed == nil && c.rejected > 0 {
		failed = invalid("%d elements of the request were refused, the first one because %v; the others are written",
			c.rejected, c.reason)
	}
	if failed == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	switch failed.status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", http.MethodPost)
	case http.StatusRequestEntityTooLarge:
		w.Header().Set("Connection", "close")
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", strconv.Itoa(retrySeconds))
	}
	http.Error(w, failed.message, failed.status)
}

// errFull asks the sender to retry. With 429 instead, Prometheus would drop the samples unless it is configured
// otherwise.
var errFull = &failure{http.StatusServiceUnavailable, "too many records are waiting to be written"}

// receive passes the content of a request on, and waits until all its records are acknowledged.
func (s *receiver) receive(w http.ResponseWriter, r *http.Request) (*content, *failure) {
	if r.Method != http.MethodPost {
		return nil, &failure{http.StatusMethodNotAllowed, "use POST"}
	}
	if !s.settings.Admits(r) {
		return nil, &failure{http.StatusUnauthorized, "the request has no valid credentials"}
	}
	v2, ok := versionOf(r.Header.Get("Content-Type"))
	if !ok {
		return nil, &failure{http.StatusUnsupportedMediaType, "the content type must be application/x-protobuf, with " +
			"proto=prometheus.WriteRequest, proto=io.prometheus.write.v2.Request or nothing"}
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "snappy" {
		return nil, &failure{http.StatusUnsupportedMediaType, "the content encoding must be snappy"}
	}
	tooLarge := &failure{http.StatusRequestEntityTooLarge,
		fmt.Sprintf("the request has more than %d bytes", s.settings.MaxBody)}
	admitted := s.settings.MaxBody
	if n := r.ContentLength; n > admitted {
		return nil, tooLarge
	} else if n >= 0 {
		admitted = n
	}
	if !s.requests.Admit(admitted) {
		return nil, errFull
	}
	defer func() { s.requests.Release(admitted) }()
	body, err := httpclient.ReadAtMost(http.MaxBytesReader(w, r.Body, s.settings.MaxBody), s.settings.MaxBody)
	if err == nil { // from here on only the acknowledgement timeout applies
		err = http.NewResponseController(w).SetReadDeadline(time.Time{})
	}
	if errors.Is(err, httpclient.ErrTooLarge) || errors.As(err, new(*http.MaxBytesError)) {
		return nil, tooLarge
	} else if err != nil {
		return nil, invalid("cannot read the body")
	}
	size, err := snappy.DecodedLen(body)
	switch {
	case err != nil:
		return nil, invalid("cannot decompress the body: %v", err)
	case int64(size) > s.settings.MaxBody:
		return nil, tooLarge
	case !s.requests.Grow(int64(size)):
		return nil, errFull
	}
	admitted += int64(size)
	if body, err = snappy.Decode(nil, body); err != nil {
		return nil, invalid("cannot decompress the body: %v", err)
	}
	s.requests.Shrink(admitted - int64(size))
	admitted = int64(size)
	return s.deliver(r, body, v2, &admitted)
}

// deliver decodes a body and waits until its records are acknowledged. It grows the admitted size by the memory of the
// texts.
func (s *receiver) deliver(r *http.Request, body []byte, v2 bool, admitted *int64) (*content, *failure) {
	c, memory, err := newContent(body, v2, s.metadata(r))
	switch {
	case err != nil:
		return nil, invalid("the body is no valid request: %v", err)
	case memory > s.budget:
		return nil, &failure{http.StatusRequestEntityTooLarge,
			"the request would take too much memory: send smaller requests"}
	case !s.requests.Grow(int64(memory)):
		return nil, errFull
	}
	*admitted += int64(memory)
	if err := c.readSymbols(); err != nil {
		return nil, invalid("the body is no valid request: %v", err)
	}
	if c.left == 0 {
		return c, nil
	}
	if err := s.server.Wait(r.Context(), c, s.settings.AckTimeout); err != nil {
		return c, &failure{http.StatusServiceUnavailable, err.Error()}
	}
	return c, nil
}

// versionOf returns whether a content type is that of remote write 2.0, and whether it is one of remote write.
func versionOf(contentType string) (v2, ok bool) {
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil || kind != "application/x-protobuf" {
		return false, false
	}
	switch params["proto"] {
	case "", "prometheus.WriteRequest":
		return false, true
	case "io.prometheus.write.v2.Request":
		return true, true
	}
	return false, false
}

// metadata returns the metadata of all records of a request.
func (s *receiver) metadata(r *http.Request) record.Metadata {
	all := record.Metadata{}
	all.Set("http.remoteAddress", r.RemoteAddr)
	for _, h := range s.headers {
		if values := r.Header.Values(h); len(values) > 0 {
			all.Set("http.header."+h, record.ValidName(strings.Join(values, ", ")))
		}
	}
	return all
}
