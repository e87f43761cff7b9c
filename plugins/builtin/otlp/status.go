package otlp

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	rpc "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/conduit-agent/conduit/plugins/record"
)

// failure is the reason why a request is refused.
type failure struct {
	code    codes.Code
	status  int // over HTTP
	message string
	retry   bool // the same request may succeed later
}

// The failures that have nothing to do with the content of a request.
var (
	errFull = &failure{codes.ResourceExhausted, http.StatusTooManyRequests,
		"too many records are waiting to be written", true}
	errStopped = &failure{codes.Unavailable, http.StatusServiceUnavailable, "the pipeline has stopped", true}
	errDenied  = &failure{codes.Unauthenticated, http.StatusUnauthorized,
		"the request has no valid credentials", false}
)

// invalid is the failure of a request that nobody could decode.
func invalid(format string, args ...any) *failure {
	return &failure{codes.InvalidArgument, http.StatusBadRequest, fmt.Sprintf(format, args...), false}
}

// tooLarge is the failure of a request above a limit.
func tooLarge(format string, args ...any) *failure {
	return &failure{codes.ResourceExhausted, http.StatusRequestEntityTooLarge, fmt.Sprintf(format, args...), false}
}

const retryPause = time.Second // that a request is asked to wait for

// proto returns the failure as the message google.rpc.Status.
func (f *failure) proto() *rpc.Status {
	s := &rpc.Status{Code: int32(f.code), Message: f.message}
	if f.retry {
		if detail, err := anypb.New(&errdetails.RetryInfo{RetryDelay: durationpb.New(retryPause)}); err == nil {
			s.Details = append(s.Details, detail)
		}
	}
	return s
}

// retryDelay returns the pause that a status asks for, and whether it asks for one.
func retryDelay(s *rpc.Status) (time.Duration, bool) {
	for _, detail := range s.GetDetails() {
		info := &errdetails.RetryInfo{}
		if detail.MessageIs(info) && detail.UnmarshalTo(info) == nil {
			return info.GetRetryDelay().AsDuration(), true
		}
	}
	return 0, false
}

// partial is the response to a request. The zero partial is a success without reservation.
type partial struct {
	rejected int64
	message  string
}

// encode returns the message ExportLogsServiceResponse, or that of another signal.
func (p partial) encode(s *signal, encoding string) ([]byte, error) {
	if encoding == encodingProtobuf {
		return p.protobuf(), nil
	}
	response := map[string]any{}
	if p != (partial{}) {
		response["partialSuccess"] = map[string]any{s.rejected: strconv.FormatInt(p.rejected, 10),
			"errorMessage": p.message}
	}
	return record.AppendValue(nil, response)
}

// protobuf returns the message, which has the same fields for all signals.
func (p partial) protobuf() []byte {
	if p == (partial{}) {
		return nil
	}
	inner := protowire.AppendTag(nil, 1, protowire.VarintType)
	inner = protowire.AppendVarint(inner, uint64(p.rejected))
	inner = protowire.AppendTag(inner, 2, protowire.BytesType)
	inner = protowire.AppendString(inner, p.message)
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), inner)
}

// parsePartial is the inverse of encode.
func parsePartial(b []byte, s *signal, encoding string) (p partial, err error) {
	if encoding == encodingJSON {
		var response struct {
			Partial map[string]json.RawMessage `json:"partialSuccess"`
		}
		if err := json.Unmarshal(b, &response); err != nil {
			return p, err
		}
		if text := response.Partial["errorMessage"]; text != nil {
			err = json.Unmarshal(text, &p.message)
		}
		if n := strings.Trim(string(response.Partial[s.rejected]), `"`); n != "" && n != "null" && err == nil {
			p.rejected, err = strconv.ParseInt(n, 10, 64) // a number, or a text as for all 64-bit integers
		}
		return p, err
	}
	err = eachField(b, func(number protowire.Number, _ uint64, value []byte) error {
		if number != 1 {
			return nil
		}
		return eachField(value, func(number protowire.Number, n uint64, value []byte) error {
			switch number {
			case 1:
				p.rejected = int64(n)
			case 2:
				p.message = string(value)
			}
			return nil
		})
	})
	return p, err
}

// eachField calls do for the fields of a message that are integers or have a length.
func eachField(b []byte, do func(number protowire.Number, n uint64, value []byte) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		var integer uint64
		var value []byte
		switch kind {
		case protowire.VarintType:
			integer, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			value, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if err := do(number, integer, value); err != nil {
			return err
		}
	}
	return nil
}
