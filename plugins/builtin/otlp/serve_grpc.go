package otlp

import (
	"encoding/base64"
	"encoding/binary"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// The wire format of gRPC is defined at https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md. Each message of
// a call has a prefix: a byte that says whether it is compressed, and its length as 32 bits.
const grpcPrefix = 5

const (
	grpcContentType = "application/grpc"
	grpcEncodings   = "identity,gzip,zstd" // of messages that are accepted
)

// isGRPC reports whether a request is a call over gRPC.
func isGRPC(r *http.Request) bool {
	kind := r.Header.Get("Content-Type")
	return kind == grpcContentType || strings.HasPrefix(kind, grpcContentType+"+") ||
		strings.HasPrefix(kind, grpcContentType+";")
}

// serveGRPC answers a call when its records are acknowledged.
func (s *server) serveGRPC(w http.ResponseWriter, r *http.Request, one *signal) {
	if r.ProtoMajor < 2 || r.Method != http.MethodPost || !isGRPC(r) {
		http.Error(w, "use gRPC over HTTP/2", http.StatusUnsupportedMediaType)
		return
	}
	if kind := r.Header.Get("Content-Type"); kind != grpcContentType && kind != grpcContentType+"+proto" {
		http.Error(w, "use application/grpc", http.StatusUnsupportedMediaType)
		return
	}
	response, failed := s.receiveGRPC(w, r, one)
	answerGRPC(w, response.protobuf(), failed)
}

func (s *server) receiveGRPC(w http.ResponseWriter, r *http.Request, one *signal) (partial, *failure) {
	if !s.admits(r) {
		return partial{}, errDenied
	}
	admitted := int64(0)
	if !s.requests.Admit(admitted) {
		return partial{}, errFull
	}
	defer func() { s.requests.Release(admitted) }()
	var prefix [grpcPrefix]byte
	if _, err := io.ReadFull(r.Body, prefix[:]); err != nil {
		return partial{}, invalid("cannot read the message: %v", err)
	}
	compression, length := "", int64(binary.BigEndian.Uint32(prefix[1:]))
	switch prefix[0] {
	case 0:
	case 1:
		if compression = r.Header.Get("Grpc-Encoding"); compression == "" {
			return partial{}, invalid("a message is compressed, and the header grpc-encoding is missing")
		}
	default:
		return partial{}, invalid("the message has the prefix %d", prefix[0])
	}
	if length > s.settings.MaxBody {
		return partial{}, tooLarge("the request has more than %d bytes", s.settings.MaxBody)
	}
	message := &exactReader{r.Body, length}
	body, failed := s.read(r, &limitedReader{Reader: message, left: s.settings.MaxBody}, compression, &admitted)
	if failed != nil {
		return partial{}, failed
	}
	if n, err := io.Copy(io.Discard, io.LimitReader(r.Body, 1)); n > 0 || err != nil {
		return partial{}, invalid("the call has more than one message")
	}
	if err := http.NewResponseController(w).SetReadDeadline(time.Time{}); err != nil {
		return partial{}, invalid("cannot read the message: %v", err)
	}
	return s.deliver(r.Context(), &received{one, encodingProtobuf, body, r}, &admitted)
}

// exactReader reads left bytes. The end of the underlying reader before them is io.ErrUnexpectedEOF.
type exactReader struct {
	from io.Reader
	left int64
}

// Read implements io.Reader.
func (e *exactReader) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > e.left {
		p = p[:e.left]
	}
	n, err := e.from.Read(p)
	e.left -= int64(n)
	if err == io.EOF {
		if e.left > 0 {
			return n, io.ErrUnexpectedEOF
		}
		err = nil
	}
	return n, err
}

// answerGRPC sends the response message, or the failure, with the status of the call in the trailer.
func answerGRPC(w http.ResponseWriter, message []byte, failed *failure) {
	h := w.Header()
	h.Set("Content-Type", grpcContentType)
	h.Set("Grpc-Accept-Encoding", grpcEncodings)
	code := codes.OK
	if failed != nil {
		code = failed.code
		h.Set(http.TrailerPrefix+"Grpc-Message", percentEncoded(failed.message))
		if details, err := proto.Marshal(failed.proto()); err == nil {
			h.Set(http.TrailerPrefix+"Grpc-Status-Details-Bin", base64.RawStdEncoding.EncodeToString(details))
		}
	} else {
		frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
		_, _ = w.Write(append(frame, message...))
	}
	h.Set(http.TrailerPrefix+"Grpc-Status", strconv.Itoa(int(code)))
}

// percentEncoded returns the form of a text in the trailer grpc-message.
func percentEncoded(text string) string { return url.PathEscape(text) }
