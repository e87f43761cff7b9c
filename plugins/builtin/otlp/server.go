package otlp

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/httpserver"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/zstd"
)

const idleTime = 5 * time.Minute // senders keep a connection between two exports

// server receives requests over HTTP, and over gRPC, which is HTTP/2 with a frame around the message. A gRPC library
// would read a request before its size is counted.
type server struct {
	settings *sourceSettings
	log      *slog.Logger
	requests *common.Requests
	budget   int // memory limit of a decoded request, in bytes
	http     *httpserver.Server
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
	s.http = &httpserver.Server{Handler: mux, TLS: config, Cleartext: true, Timeout: s.settings.Timeout, Idle: idleTime,
		Connections: s.settings.Connections, Requests: s.requests, Log: s.log}
	for _, address := range s.settings.Addresses {
		if err := s.http.Listen(ctx, address); err != nil {
			return err
		}
	}
	return nil
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
	from     *http.Request
}

// decode returns the content of a request. It grows the admitted size by the memory of the decoded request.
func (s *server) decode(r *received, admitted *int64) (common.Content, *failure) {
	metadata := record.Metadata{}
	metadata.Set(keySignal, r.signal.name)
	metadata.Set(keyRemote, r.from.RemoteAddr)
	h := r.from.Header
	metadata.SetTraceContext(h.Get(record.KeyTraceParent), strings.Join(h.Values(record.KeyTraceState), ","))
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
	err := s.http.Wait(ctx, all, s.settings.AckTimeout)
	switch {
	case errors.Is(err, httpserver.ErrLate):
		return partial{}, &failure{codes.Unavailable, http.StatusServiceUnavailable, err.Error(), true}
	case err != nil:
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
