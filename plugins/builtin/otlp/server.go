package otlp

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/zstd"
)

const (
	headerLimit = 64 << 10
	maxStreams  = 100 // concurrent requests over one HTTP/2 connection
	headerTime  = 10 * time.Second
	idleTime    = 5 * time.Minute // senders keep a connection between two exports
	goodbyeTime = 5 * time.Second // for sending answers when the source ends
)

// server receives requests over HTTP, and over gRPC, which is HTTP/2 with a frame around the message. A gRPC library
// would read a request before its size is counted.
type server struct {
	settings *sourceSettings
	log      *slog.Logger
	requests *common.Requests
	budget   int // memory limit of a decoded request, in bytes
	servers  []*http.Server
	serving  sync.WaitGroup
}

func newServer(ctx context.Context, settings *sourceSettings, numbers common.Numbers) *server {
	return &server{settings: settings, log: sdk.Logger(ctx), budget: sdk.Budget(ctx),
		requests: common.NewRequests(ctx, settings.MaxRequests, settings.MaxBytes, numbers)}
}

// listen starts listening on all addresses.
func (s *server) listen(ctx context.Context) error {
	config, err := s.settings.TLS.Server()
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	for _, one := range signals {
		mux.HandleFunc(one.path, func(w http.ResponseWriter, r *http.Request) { s.serveHTTP(w, r, one) })
		mux.HandleFunc(one.method, func(w http.ResponseWriter, r *http.Request) { s.serveGRPC(w, r, one) })
	}
	mux.HandleFunc("/", unknown)
	for _, address := range s.settings.Addresses {
		var l net.ListenConfig
		listener, err := l.Listen(ctx, "tcp", address)
		if err != nil {
			return sdk.Unavailable(fmt.Errorf("cannot listen: %w", err))
		}
		limited := common.LimitConnections(listener, s.settings.Connections, s.log)
		protocols := &http.Protocols{}
		protocols.SetHTTP1(true)
		protocols.SetHTTP2(true)
		protocols.SetUnencryptedHTTP2(true)
		h := &http.Server{Handler: mux, TLSConfig: config, Protocols: protocols, ReadHeaderTimeout: headerTime,
			IdleTimeout: idleTime, MaxHeaderBytes: headerLimit, ReadTimeout: s.settings.Timeout,
			ConnState: limited.Observe, HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
			ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)}
		s.servers = append(s.servers, h)
		s.serving.Go(func() { s.serve(h, limited) })
		s.log.Info("receiving requests", "address", listener.Addr().String(), "tls", config != nil)
	}
	return nil
}

func (s *server) serve(h *http.Server, l net.Listener) {
	var err error
	if h.TLSConfig != nil {
		err = h.ServeTLS(l, "", "")
	} else {
		err = h.Serve(l)
	}
	if !errors.Is(err, http.ErrServerClosed) {
		s.log.Error("cannot receive further requests", "err", err)
		s.requests.Close()
	}
}

// close answers waiting requests and ends the server. It never answers a request with a success whose records are not
// all acknowledged.
func (s *server) close(ctx context.Context) error {
	for _, h := range s.servers {
		h.SetKeepAlivesEnabled(false)
	}
	s.requests.Close()
	ctx, cancel := context.WithTimeout(ctx, goodbyeTime)
	defer cancel()
	var errs []error
	for _, h := range s.servers {
		if h.Shutdown(ctx) != nil { // a client sends slowly, or does not read
			errs = append(errs, h.Close())
		}
	}
	s.serving.Wait()
	s.requests.Free()
	return errors.Join(errs...)
}

// admits reports whether a request has valid credentials. It compares digests in constant time.
func (s *server) admits(r *http.Request) bool {
	if s.settings.Token == "" {
		return true
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	got, want := sha256.Sum256([]byte(strings.TrimSpace(token))), sha256.Sum256([]byte(s.settings.Token))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// received is a request of a sender.
type received struct {
	signal   *signal
	encoding string
	body     []byte // decompressed
	remote   string
}

// decode returns the content of a request. It grows the admitted size by the memory of the decoded request.
func (s *server) decode(r *received, admitted *int64) (common.Content, *failure) {
	metadata := record.Metadata{}
	metadata.Set(keySignal, r.signal.name)
	metadata.Set(keyRemote, r.remote)
	data := r.signal.newData()
	var memory int
	var err error
	if r.encoding == encodingJSON {
		memory, err = jsonMemory(r.body)
	} else {
		memory, err = protobufMemory(r.body, data.ProtoReflect().Descriptor(), 0)
	}
	switch {
	case err != nil:
		return nil, invalid("the body is not a valid request: %v", err)
	case memory > s.budget:
		return nil, tooLarge("the request would take too much memory: send smaller requests")
	case !s.grow(admitted, max(0, int64(memory/2)-*admitted)): // the estimate is an upper bound
		return nil, errFull
	case r.encoding == encodingJSON:
		err = unmarshalJSON(r.body, data)
	default:
		err = proto.Unmarshal(r.body, data)
	}
	switch {
	case err != nil:
		return nil, invalid("the body is not a valid request: %v", err)
	case s.settings.Records == "items":
		return newContent(r.signal, data, metadata, s.settings.Resource == "payload"), nil
	case isEmpty(data):
		return &whole{}, nil
	}
	metadata.Set(keyEncoding, r.encoding)
	return &whole{1, r.body, metadata}, nil
}

// isEmpty reports whether a message has no fields.
func isEmpty(m proto.Message) bool { return proto.Size(m) == 0 }

// deliver passes the content of a request on, and waits until all its records are acknowledged.
func (s *server) deliver(ctx context.Context, r *received, admitted *int64) (partial, *failure) {
	all, failed := s.decode(r, admitted)
	if failed != nil {
		return partial{}, failed
	}
	if all.Left() == 0 {
		return partial{}, nil
	}
	waiting := s.requests.Add(all)
	timeout := time.NewTimer(s.settings.AckTimeout)
	defer timeout.Stop()
	select {
	case <-waiting.Done():
	case <-timeout.C:
		s.requests.GiveUp(waiting)
		return partial{}, &failure{codes.Unavailable, http.StatusServiceUnavailable, fmt.Sprintf(
			"the records were not written within %v, but may be written later", s.settings.AckTimeout), true}
	case <-s.requests.Closed():
		select {
		case <-waiting.Done():
		default:
			return partial{}, errStopped
		}
	case <-ctx.Done():
		s.requests.GiveUp(waiting)
		return partial{}, errStopped
	}
	if c, ok := all.(*content); ok && c.rejected > 0 {
		return partial{c.rejected, fmt.Sprintf("%d %s were rejected, the first one because %v", c.rejected,
			r.signal.item, c.reason)}, nil
	}
	return partial{}, nil
}

// grow adds n bytes to the admitted size of a request, unless a limit is reached.
func (s *server) grow(admitted *int64, n int64) bool {
	ok := s.requests.Grow(n)
	if ok {
		*admitted += n
	}
	return ok
}

// read reads and decompresses a body. It grows the admitted size by the decompressed bytes.
func (s *server) read(r *http.Request, from *limitedReader, compression string, admitted *int64) ([]byte, *failure) {
	grow := func(n int64) bool { return s.grow(admitted, n) }
	d, err := decompressor(from, compression, s.settings.MaxBody)
	if err == nil {
		defer func() { _ = d.Close() }()
		var body []byte
		if body, err = readAll(d, s.settings.MaxBody, grow); err == nil {
			s.requests.Shrink(*admitted - int64(len(body)))
			*admitted = int64(len(body))
			return body, nil
		}
	}
	switch {
	case errors.Is(err, errEncoding):
		return nil, &failure{codes.Unimplemented, http.StatusUnsupportedMediaType, err.Error(), false}
	case errors.Is(err, errLimit), from.exceeded, zstd.TooLarge(err):
		return nil, tooLarge("the request has more than %d bytes", s.settings.MaxBody)
	case errors.Is(err, errNoRoom):
		return nil, errFull
	case r.Context().Err() != nil:
		return nil, errStopped
	}
	return nil, invalid("cannot read the body: %v", err)
}

// encodingOf returns the encoding that a content type names, "" for another content type.
func encodingOf(contentType string) string {
	switch kind, _, _ := mime.ParseMediaType(contentType); kind {
	case "application/x-protobuf":
		return encodingProtobuf
	case "application/json":
		return encodingJSON
	}
	return ""
}
