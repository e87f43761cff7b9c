package http

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/httpclient"
	"github.com/conduit-agent/conduit/plugins/builtin/httpserver"
	"github.com/conduit-agent/conduit/plugins/processor/jsonvalue"
	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

const (
	maxRead      = 1000 // approximate number of records that one Read returns
	idleTime     = 2 * time.Minute
	retrySeconds = 1
)

// server is a source that receives requests.
type server struct {
	settings *sourceSettings
	log      *slog.Logger
	limiter  *rate.Limiter // nil: no limit
	pending  *common.Requests
	http     *httpserver.Server // nil before open
	headers  []string           // request headers that become metadata, in canonical form
	budget   int                // memory limit of a record, in bytes
}

// open starts listening. Every position of this mode is valid: unacknowledged requests were not answered, so their
// senders repeat them.
func (s *server) open(ctx context.Context, pos record.Position) error {
	numbers, err := common.NewNumbers(pos)
	if err != nil {
		return err
	}
	config, err := s.settings.TLS.Server()
	if err != nil {
		return err
	}
	s.log, s.budget = sdk.Logger(ctx), sdk.Budget(ctx)
	s.pending = common.NewRequests(ctx, s.settings.MaxRequests, s.settings.MaxBytes, numbers)
	for _, h := range s.settings.Headers {
		if h != "" {
			s.headers = append(s.headers, http.CanonicalHeaderKey(h))
		}
	}
	if r := s.settings.Rate; r > 0 {
		s.limiter = rate.NewLimiter(rate.Limit(r), max(1, int(r)))
	}
	mux := http.NewServeMux()
	mux.HandleFunc(s.settings.Path, s.serve)
	s.http = &httpserver.Server{Handler: mux, TLS: config, Timeout: s.settings.Timeout, Idle: idleTime,
		Connections: s.settings.Connections, Requests: s.pending, Log: s.log}
	return s.http.Listen(ctx, s.settings.Address)
}

func (s *server) read(ctx context.Context) ([]record.Record, error) {
	return s.pending.Next(ctx, maxRead)
}

func (s *server) ack(positions []record.Position) error {
	s.pending.Ack(len(positions))
	return nil
}

// close answers pending requests and ends the server.
func (s *server) close(ctx context.Context) error {
	if s.http == nil {
		return nil
	}
	return s.http.Close(ctx)
}

func (s *server) progress() progress.Report {
	n := s.pending.Waits()
	return progress.Report{Records: &n, At: time.Now(), Endless: true}
}

// serve answers a request when its records are acknowledged.
func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	if !slices.Contains(s.settings.Methods, r.Method) {
		w.Header().Set("Allow", strings.Join(s.settings.Methods, ", "))
		http.Error(w, "use "+strings.Join(s.settings.Methods, " or "), http.StatusMethodNotAllowed)
		return
	}
	if !s.settings.Admits(r) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "the request has no valid credentials", http.StatusUnauthorized)
		return
	}
	if s.limiter != nil && !s.limiter.Allow() {
		later(w, http.StatusTooManyRequests, "too many requests")
		return
	}
	size := s.settings.MaxBody
	if n := r.ContentLength; n > size {
		s.tooLarge(w)
		return
	} else if n >= 0 && r.Header.Get("Content-Encoding") == "" {
		size = n
	}
	if !s.pending.Admit(size) {
		later(w, http.StatusServiceUnavailable, "too many records are waiting to be written")
		return
	}
	defer func() { s.pending.Release(size) }()
	body, status, err := s.body(w, r)
	if err != nil {
		if status == http.StatusRequestEntityTooLarge {
			s.tooLarge(w)
			return
		}
		http.Error(w, err.Error(), status)
		return
	}
	s.pending.Shrink(size - int64(len(body)))
	size = int64(len(body))
	s.deliver(w, r, body)
}

func (s *server) tooLarge(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	http.Error(w, fmt.Sprintf("the body has more than %d bytes", s.settings.MaxBody), http.StatusRequestEntityTooLarge)
}

// later refuses a request and asks the client to retry.
func later(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Retry-After", strconv.Itoa(retrySeconds))
	http.Error(w, message, status)
}

// body reads the body. The maximum size applies to the compressed and to the uncompressed body.
func (s *server) body(w http.ResponseWriter, r *http.Request) (body []byte, status int, err error) {
	var from io.Reader = http.MaxBytesReader(w, r.Body, s.settings.MaxBody)
	switch r.Header.Get("Content-Encoding") {
	case "", "identity":
	case "gzip":
		if from, err = gzip.NewReader(from); err != nil {
			return nil, http.StatusBadRequest, errors.New("the body is not gzip")
		}
	default:
		return nil, http.StatusUnsupportedMediaType,
			errors.New("the content encoding of the body is not supported: use gzip or none")
	}
	body, err = httpclient.ReadAtMost(from, s.settings.MaxBody)
	if err == nil { // from here on only the acknowledgement timeout applies
		err = http.NewResponseController(w).SetReadDeadline(time.Time{})
	}
	switch {
	case errors.Is(err, httpclient.ErrTooLarge), errors.As(err, new(*http.MaxBytesError)):
		return nil, http.StatusRequestEntityTooLarge, err
	case err != nil:
		return nil, http.StatusBadRequest, errors.New("cannot read the body")
	case !s.settings.Signed(r, body):
		return nil, http.StatusUnauthorized, fmt.Errorf("the header %s does not match the body", s.settings.HMACHeader)
	}
	return body, 0, nil
}

func (s *server) deliver(w http.ResponseWriter, r *http.Request, body []byte) {
	payloads, err := s.settings.split(r.Header.Get("Content-Type"), body, s.budget, nil)
	switch {
	case errors.Is(err, jsonvalue.ErrMemory):
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	case errors.Is(err, errEncoding):
		http.Error(w, err.Error(), http.StatusUnsupportedMediaType)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	case payloads.left == 0:
		w.WriteHeader(http.StatusNoContent)
		return
	}
	switch err := s.http.Wait(r.Context(), &content{payloads, s.metadata(r)}, s.settings.AckTimeout); {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case r.Context().Err() == nil:
		later(w, http.StatusServiceUnavailable, err.Error())
	}
}

// content creates the records of a request.
type content struct {
	payloads *payloads
	metadata record.Metadata
}

func (c *content) Left() int { return c.payloads.left }

func (c *content) Next(n int) ([]record.Record, error) {
	payloads, err := c.payloads.next(n)
	return recordsOf(payloads, c.metadata), err
}

func recordsOf(payloads []record.Data, metadata record.Metadata) []record.Record {
	arena := record.NewArena(len(payloads), len(metadata), 0)
	records := make([]record.Record, len(payloads))
	for i := range records {
		records[i] = record.Record{Operation: record.OperationCreate,
			Metadata: append(arena.Metadata(len(metadata)), metadata...), After: payloads[i]}
	}
	return records
}

func (s *server) metadata(r *http.Request) record.Metadata {
	all := record.Metadata{}
	all.Set(record.KeyCreatedAt, strconv.FormatInt(time.Now().UnixNano(), 10))
	all.Set("http.method", r.Method)
	all.Set("http.path", record.ValidName(r.URL.Path))
	all.Set("http.remoteAddress", r.RemoteAddr)
	if q := r.URL.RawQuery; q != "" {
		all.Set("http.query", record.ValidName(q))
	}
	if t := r.Header.Get("Content-Type"); t != "" {
		all.Set("http.contentType", record.ValidName(t))
	}
	for _, h := range s.headers {
		for _, v := range r.Header.Values(h) {
			all.Add("http.header."+h, record.ValidName(v))
		}
	}
	all.SortRepeated()
	all.SetTraceContext(r.Header.Get(record.KeyTraceParent), strings.Join(r.Header.Values(record.KeyTraceState), ","))
	return all
}
