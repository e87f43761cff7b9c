//go:build !minimal

package wasm

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"

	"google.golang.org/protobuf/proto"

	"github.com/conduit-agent/conduit/plugins/processor/wasm/wasmpb/procutilsv1"
	"github.com/conduit-agent/conduit/plugins/schema"
)

// services are what a guest may use of the host.
type services struct {
	schemas schema.Registry // nil: none
	egress  *egress         // nil: none
}

func (g *guest) httpRequest(ctx context.Context, b []byte) (proto.Message, uint32) {
	if g.services.egress == nil {
		return nil, codeEgressDisabled
	}
	m := &procutilsv1.HTTPRequest{}
	if err := proto.Unmarshal(b, m); err != nil {
		return nil, codeEgressInvalid
	}
	r := request{method: m.GetMethod(), url: m.GetUrl(), header: http.Header{}, body: m.GetBody(), secret: m.GetAuthSecretRef()}
	for _, h := range m.GetHeaders() {
		r.header[h.GetKey()] = append(r.header[h.GetKey()], h.GetValues()...)
	}
	answer, err := g.services.egress.do(ctx, r)
	if err != nil {
		return nil, egressCode(err)
	}
	out := &procutilsv1.HTTPResponse{StatusCode: int32(answer.status), Body: answer.body}
	for name, values := range answer.header {
		out.Headers = append(out.Headers, &procutilsv1.HTTPHeader{Key: name, Values: values})
	}
	return out, 0
}

func egressCode(err error) uint32 {
	var dns *net.DNSError
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, errEgressForbidden):
		return codeEgressForbidden
	case errors.Is(err, errEgressInvalid):
		return codeEgressInvalid
	case errors.Is(err, errEgressTooLarge):
		return codeEgressTooLarge
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return codeEgressTimeout
	case errors.As(err, &dns):
		return codeEgressDNS
	}
	return codeEgressTransport
}
