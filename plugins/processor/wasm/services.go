package wasm

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"

	"google.golang.org/protobuf/proto"

	"github.com/conduit-agent/conduit/plugins/processor/wasm/wasmpb"
	"github.com/conduit-agent/conduit/plugins/schema"
)

// services are the services of the host that a guest may use.
type services struct {
	processorID string
	schemas     schema.Registry // nil: none
	bounds      *schema.Bounds  // bounds of the schemas that it may create
	egress      *egressClient   // nil: none
}

func (g *guest) httpRequest(ctx context.Context, b []byte) (proto.Message, uint32) {
	if g.services.egress == nil {
		return nil, codeEgressDisabled
	}
	m := &wasmpb.HTTPRequest{}
	if err := proto.Unmarshal(b, m); err != nil {
		return nil, codeEgressInvalid
	}
	r := egressRequest{Method: m.GetMethod(), URL: m.GetUrl(), Header: http.Header{}, Body: m.GetBody(),
		Secret: m.GetAuthSecretRef()}
	for _, h := range m.GetHeaders() {
		r.Header[h.GetKey()] = append(r.Header[h.GetKey()], h.GetValues()...)
	}
	answer, err := g.services.egress.Do(ctx, r)
	if err != nil {
		return nil, egressCode(err)
	}
	out := &wasmpb.HTTPResponse{StatusCode: int32(answer.Status), Body: answer.Body}
	for name, values := range answer.Header {
		out.Headers = append(out.Headers, &wasmpb.HTTPHeader{Key: name, Values: values})
	}
	return out, 0
}

func egressCode(err error) uint32 {
	var dns *net.DNSError
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, errForbidden):
		return codeEgressForbidden
	case errors.Is(err, errInvalid):
		return codeEgressInvalid
	case errors.Is(err, errTooLarge):
		return codeEgressTooLarge
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) &&
		timeout.Timeout():
		return codeEgressTimeout
	case errors.As(err, &dns):
		return codeEgressDNS
	}
	return codeEgressTransport
}
