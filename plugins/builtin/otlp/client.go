package otlp

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	rpc "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/builtin/httpclient"
	"github.com/conduit-agent/conduit/plugins/peer"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec/texts"
)

// Protocols of a destination.
const (
	protocolGRPC     = "grpc"
	protocolProtobuf = "http/protobuf"
	protocolJSON     = "http/json"
)

const (
	dialTime       = 10 * time.Second
	keepAlive      = 30 * time.Second
	maxAnswer      = 1 << 20 // bytes of a response
	maxShown       = 300     // bytes of a response in an error
	shortestSecret = 4
	longestTimeout = 99_999_999       // milliseconds in the header grpc-timeout
	longestAsked   = 10 * time.Minute // maximum for the pause that a server requests
)

// client sends requests to a server.
type client struct {
	settings *destinationSettings
	base     *url.URL
	http     *http.Client

	traceparent, tracestate string // of all records of the current request; "": they differ, or have none
}

func newClient(s *destinationSettings, base *url.URL) (*client, error) {
	config, err := s.Client()
	if err != nil {
		return nil, err
	}
	protocols := &http.Protocols{}
	if s.Protocol == protocolGRPC {
		protocols.SetHTTP2(true)
		protocols.SetUnencryptedHTTP2(true)
	} else {
		protocols.SetHTTP1(true)
		protocols.SetHTTP2(true)
	}
	transport := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: dialTime, KeepAlive: keepAlive}).DialContext,
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    dialTime,
		IdleConnTimeout:        idleTime,
		Protocols:              protocols,
		MaxResponseHeaderBytes: peer.MaxHeader,
	}
	c := &client{settings: s, base: base, http: &http.Client{Transport: transport}}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

func (c *client) close() { c.http.CloseIdleConnections() }

// encoding returns the encoding of requests.
func (c *client) encoding() string {
	if c.settings.Protocol == protocolJSON {
		return encodingJSON
	}
	return encodingProtobuf
}

// outcome is the response to a request. Without err, the server has accepted it, at least in part.
type outcome struct {
	partial partial
	err     error
	retries bool          // the same request may succeed later
	pause   time.Duration // that the server asks for
	blames  bool          // the error may be due to the content of the request
}

// send sends a body and returns the outcome.
func (c *client) send(ctx context.Context, s *signal, body []byte) outcome {
	ctx, cancel := context.WithTimeout(ctx, c.settings.Timeout)
	defer cancel()
	body, err := compressed(body, c.settings.Compression)
	if err != nil {
		return outcome{err: err}
	}
	if c.settings.Protocol == protocolGRPC {
		return c.call(ctx, s, body)
	}
	return c.post(ctx, s, body)
}

// request returns a request for a path below the URL of the settings.
func (c *client) request(ctx context.Context, path string, body []byte) (*http.Request, error) {
	target := *c.base
	target.Path = strings.TrimSuffix(target.Path, "/") + path
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("cannot create the request: its URL is invalid")
	}
	if c.traceparent != "" {
		r.Header.Set(record.KeyTraceParent, c.traceparent)
		if c.tracestate != "" {
			r.Header.Set(record.KeyTraceState, c.tracestate)
		}
	}
	for name, value := range c.settings.Headers {
		r.Header.Set(name, value)
	}
	if c.settings.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.settings.Token)
	}
	r.Header.Set("User-Agent", "OTel-OTLP-Exporter-Conduit/"+strings.TrimPrefix(version, "v"))
	return r, nil
}

// do sends a request, and returns the response with a body of at most maxAnswer bytes.
func (c *client) do(r *http.Request) (*http.Response, []byte, error) {
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, nil, c.unreachable(r, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, nil, c.unreachable(r, err)
	case len(body) > maxAnswer:
		return nil, nil, fmt.Errorf("the response of %s has more than %d bytes", r.URL.Host, maxAnswer)
	}
	return resp, body, nil
}

// unreachable describes why there is no response. It omits the URL, which may contain a secret.
func (c *client) unreachable(r *http.Request, err error) error {
	var inURL *url.Error
	if errors.As(err, &inURL) {
		err = inURL.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		c.http.CloseIdleConnections() // an HTTP/2 connection that is half-open would get the next request, too
		return fmt.Errorf("%s did not respond within %v", r.URL.Host, c.settings.Timeout)
	}
	return fmt.Errorf("cannot reach %s: %s", r.URL.Host, c.redact(err.Error()))
}

// redact replaces the secrets of the settings in text: some servers repeat them.
func (c *client) redact(text string) string {
	secrets := []string{c.settings.Token}
	for _, value := range c.settings.Headers {
		secrets = append(secrets, value)
	}
	for _, s := range secrets {
		if len(s) >= shortestSecret {
			text = strings.ReplaceAll(text, s, "***")
		}
	}
	return text
}

// shown returns a text of the server for an error.
func (c *client) shown(text string) string {
	text = strings.ToValidUTF8(strings.TrimSpace(c.redact(texts.Truncate(text, 4*maxShown))), "\uFFFD")
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[:maxShown], "") + "…"
	}
	return text
}

// post sends a request over HTTP.
func (c *client) post(ctx context.Context, s *signal, body []byte) outcome {
	r, err := c.request(ctx, s.path, body)
	if err != nil {
		return outcome{err: err}
	}
	r.Header.Set("Content-Type", contentTypes[c.encoding()])
	if c.settings.Compression != compressNone {
		r.Header.Set("Content-Encoding", c.settings.Compression)
	}
	resp, answer, err := c.do(r) //nolint:bodyclose // do closes it
	if err != nil {
		return outcome{err: err, retries: true}
	}
	if resp.StatusCode/100 == 2 {
		o := outcome{}
		if len(answer) > 0 { // some servers send nothing
			o.partial, err = parsePartial(answer, s, c.encodingOf(resp.Header))
		}
		if err != nil {
			return outcome{err: fmt.Errorf("cannot read the response of %s, which may have accepted the records: %w",
				r.URL.Host, err)}
		}
		return o
	}
	o := outcome{err: c.statusError(resp, answer)}
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		o.retries, o.pause = true, httpclient.RetryAfter(resp.Header)
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		o.blames = true
	}
	return o
}

// encodingOf returns the encoding of a response, which should be that of the request.
func (c *client) encodingOf(h http.Header) string {
	if encoding := encodingOf(h.Get("Content-Type")); encoding != "" {
		return encoding
	}
	return c.encoding()
}

// statusError describes an unsuccessful response over HTTP.
func (c *client) statusError(resp *http.Response, answer []byte) error {
	text := fmt.Sprintf("the server responded with status %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	if resp.StatusCode/100 == 3 {
		text += ": set url to the correct URL"
	}
	message := string(answer)
	status := &rpc.Status{}
	var err error
	switch encodingOf(resp.Header.Get("Content-Type")) {
	case encodingProtobuf:
		err = proto.Unmarshal(answer, status)
	case encodingJSON:
		err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(answer, status)
	}
	if err == nil && status.GetMessage() != "" {
		message = status.GetMessage()
	}
	if message = c.shown(message); message != "" {
		text += fmt.Sprintf(": %q", message)
	}
	return errors.New(text)
}

// call sends a request over gRPC.
func (c *client) call(ctx context.Context, s *signal, body []byte) outcome {
	frame := make([]byte, grpcPrefix, grpcPrefix+len(body))
	if c.settings.Compression != compressNone {
		frame[0] = 1
	}
	binary.BigEndian.PutUint32(frame[1:], uint32(len(body)))
	r, err := c.request(ctx, s.method, append(frame, body...))
	if err != nil {
		return outcome{err: err}
	}
	r.Header.Set("Content-Type", grpcContentType)
	r.Header.Set("Te", "trailers")
	r.Header.Set("Grpc-Timeout", strconv.FormatInt(min(c.settings.Timeout.Milliseconds(), longestTimeout), 10)+"m")
	r.Header.Set("Grpc-Accept-Encoding", grpcEncodings)
	if c.settings.Compression != compressNone {
		r.Header.Set("Grpc-Encoding", c.settings.Compression)
	}
	resp, answer, err := c.do(r) //nolint:bodyclose // do closes it
	if err != nil {
		return outcome{err: err, retries: true}
	}
	trailer := resp.Trailer
	if trailer.Get("Grpc-Status") == "" {
		trailer = resp.Header // of a response without a message
	}
	text := trailer.Get("Grpc-Status")
	code, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return c.notGRPC(resp, answer)
	}
	if codes.Code(code) != codes.OK {
		return c.failed(codes.Code(code), trailer)
	}
	o := outcome{}
	message, err := unframed(answer, resp.Header.Get("Grpc-Encoding"))
	if err == nil {
		o.partial, err = parsePartial(message, s, encodingProtobuf)
	}
	if err != nil {
		return outcome{err: fmt.Errorf("cannot read the response of %s, which may have accepted the records: %w",
			r.URL.Host, err)}
	}
	return o
}

// unframed returns the message of a response. Some servers compress it as the request is, whatever they were asked for.
func unframed(answer []byte, compression string) ([]byte, error) {
	if len(answer) < grpcPrefix || int64(binary.BigEndian.Uint32(answer[1:])) != int64(len(answer)-grpcPrefix) {
		return nil, errors.New("it is not one message")
	}
	if answer[0] == 0 {
		return answer[grpcPrefix:], nil
	}
	d, err := decompressor(bytes.NewReader(answer[grpcPrefix:]), compression, maxAnswer)
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }()
	return readAll(d, maxAnswer, func(int64) bool { return true })
}

// notGRPC returns the outcome for a response of a server that does not speak gRPC, such as a proxy.
func (c *client) notGRPC(resp *http.Response, answer []byte) outcome {
	o := outcome{err: fmt.Errorf("the server does not respond over gRPC: %w", c.statusError(resp, answer))}
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		o.retries, o.pause = true, httpclient.RetryAfter(resp.Header)
	}
	return o
}

// failed returns the outcome of a call with a status that is not OK.
func (c *client) failed(code codes.Code, trailer http.Header) outcome {
	message, err := url.PathUnescape(trailer.Get("Grpc-Message"))
	if err != nil {
		message = trailer.Get("Grpc-Message")
	}
	o := outcome{err: fmt.Errorf("the server responded with status %v", code)}
	if message = c.shown(message); message != "" {
		o.err = fmt.Errorf("%w: %q", o.err, message)
	}
	status := &rpc.Status{}
	details, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(trailer.Get("Grpc-Status-Details-Bin"), "="))
	asked := false
	if err == nil && proto.Unmarshal(details, status) == nil {
		o.pause, asked = retryDelay(status)
		o.pause = min(max(0, o.pause), longestAsked)
	}
	switch code {
	case codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.OutOfRange, codes.Unavailable, codes.DataLoss:
		o.retries = true
	case codes.ResourceExhausted:
		o.retries, o.blames = asked, !asked
	case codes.InvalidArgument:
		o.blames = true
	}
	return o
}

// try sends a body, and retries after temporary failures until the time for retries has passed.
func (c *client) try(ctx context.Context, s *signal, body []byte, warn func(err error, pause time.Duration)) outcome {
	var again common.Backoff
	for begin := time.Now(); ; {
		o := c.send(ctx, s, body)
		if ctx.Err() != nil {
			return outcome{err: ctx.Err()}
		}
		if o.err == nil || !o.retries {
			return o
		}
		pause := max(again.Next(), o.pause)
		if time.Since(begin)+pause > c.settings.RetryFor {
			o.err = fmt.Errorf("%w (the last of %d tries)", o.err, again.Tries)
			return o
		}
		warn(o.err, pause)
		if err := common.Sleep(ctx, pause); err != nil {
			return outcome{err: err}
		}
	}
}
