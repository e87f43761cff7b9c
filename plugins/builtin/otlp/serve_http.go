package otlp

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// unknown answers a request for a path that no signal has.
func unknown(w http.ResponseWriter, r *http.Request) {
	if isGRPC(r) {
		answerGRPC(w, nil, &failure{code: codes.Unimplemented, message: "unknown method " + strconv.Quote(r.URL.Path)})
		return
	}
	http.Error(w, "use /v1/logs, /v1/metrics or /v1/traces", http.StatusNotFound)
}

// serveHTTP answers a request over HTTP when its records are acknowledged.
func (s *server) serveHTTP(w http.ResponseWriter, r *http.Request, one *signal) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "use POST", http.StatusMethodNotAllowed)
		return
	}
	encoding := encodingOf(r.Header.Get("Content-Type"))
	if encoding == "" {
		http.Error(w, "the content type must be application/x-protobuf or application/json",
			http.StatusUnsupportedMediaType)
		return
	}
	response, failed := s.receiveHTTP(w, r, one, encoding)
	var body []byte
	var err error
	if failed == nil {
		body, err = response.encode(one, encoding)
	} else {
		if failed.retry {
			w.Header().Set("Retry-After", strconv.Itoa(int(retryPause/time.Second)))
		}
		switch failed.status {
		case http.StatusUnauthorized:
			w.Header().Set("WWW-Authenticate", "Bearer")
		case http.StatusRequestEntityTooLarge:
			w.Header().Set("Connection", "close")
		}
		body, err = encodeStatus(failed, encoding)
	}
	if err != nil {
		http.Error(w, "cannot encode the response", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", contentTypes[encoding])
	if failed != nil {
		w.WriteHeader(failed.status)
	}
	_, _ = w.Write(body)
}

// contentTypes are the content types of encodings.
var contentTypes = map[string]string{
	encodingProtobuf: "application/x-protobuf", encodingJSON: "application/json"}

func encodeStatus(f *failure, encoding string) ([]byte, error) {
	if encoding == encodingJSON {
		return protojson.Marshal(f.proto())
	}
	return proto.Marshal(f.proto())
}

func (s *server) receiveHTTP(
	w http.ResponseWriter, r *http.Request, one *signal, encoding string,
) (partial, *failure) {
	if !s.admits(r) {
		return partial{}, errDenied
	}
	if r.ContentLength > s.settings.MaxBody {
		return partial{}, tooLarge("the request has more than %d bytes", s.settings.MaxBody)
	}
	admitted := int64(0)
	if !s.requests.Admit(admitted) {
		return partial{}, errFull
	}
	defer func() { s.requests.Release(admitted) }()
	from := &limitedReader{Reader: r.Body, left: s.settings.MaxBody}
	body, failed := s.read(r, from, strings.ToLower(r.Header.Get("Content-Encoding")), &admitted)
	if failed != nil {
		return partial{}, failed
	}
	// From here on only the acknowledgement timeout applies.
	if err := http.NewResponseController(w).SetReadDeadline(time.Time{}); err != nil {
		return partial{}, invalid("cannot read the body: %v", err)
	}
	return s.deliver(r.Context(), &received{one, encoding, body, r}, &admitted)
}
