// Package httpclient sends the requests of connectors over HTTP: credentials, TLS, redirects, retries, and errors
// without secrets.
package httpclient

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/common"
	"github.com/conduit-agent/conduit/plugins/peer"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec/texts"
)

// Client sends requests to one host.
type Client struct {
	auth    *Auth
	hmac    *HMAC
	headers map[string]string
	timeout time.Duration
	max     int64 // maximum size of a response, in bytes
	http    *http.Client

	// Transport sends the requests. It may be set up before the first one.
	Transport *http.Transport
	// Scheme is the scheme of the URL without TLS, for errors. Empty: http.
	Scheme string
	// Secrets are further texts that errors must not contain. They may be set before the first request.
	Secrets []string
}

const maxIdle = 2 // idle connections; requests are sent one at a time

// New returns a client that sends headers and the credentials of a with each request, and signs bodies as h says. A
// response with more than maxBytes is an error. follow reports whether the client follows redirects to the same host.
func New(
	a *Auth, h *HMAC, t *common.TLS, headers map[string]string, timeout time.Duration, maxBytes int64, follow bool,
) (*Client, error) {
	config, err := t.Client()
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: dialTime, KeepAlive: keepAlive}).DialContext,
		TLSClientConfig:       config,
		TLSHandshakeTimeout:   dialTime,
		MaxIdleConnsPerHost:   maxIdle,
		IdleConnTimeout:       idleTime,
		ForceAttemptHTTP2:     true,
		ExpectContinueTimeout: time.Second,

		MaxResponseHeaderBytes: peer.MaxHeader,
	}
	c := &Client{auth: a, hmac: h, headers: headers, timeout: timeout, max: maxBytes,
		http: &http.Client{Transport: transport}, Transport: transport}
	c.http.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if !follow {
			return http.ErrUseLastResponse
		}
		return sameHost(req, via)
	}
	return c, nil
}

const (
	dialTime    = 10 * time.Second
	idleTime    = 2 * time.Minute // until an idle connection is closed
	keepAlive   = 30 * time.Second
	maxRedirect = 10
)

// sameHost refuses redirects to other hosts: the request may carry a token.
func sameHost(req *http.Request, via []*http.Request) error {
	if req.URL.Host != via[0].URL.Host || req.URL.Scheme != via[0].URL.Scheme {
		return errors.New("the server redirects to another server, which must not get the request")
	}
	if len(via) > maxRedirect {
		return errors.New("the server redirected too often")
	}
	return nil
}

// Response is a response with its complete body.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Do sends one request and reads the response. With an error, the response is nil or incomplete.
func (c *Client) Do(ctx context.Context, method, target string, body []byte, header http.Header) (*Response, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("cannot create the request: its URL is invalid")
	}
	for name, value := range c.headers {
		req.Header.Set(name, value)
	}
	for name := range header {
		req.Header.Set(name, header.Get(name))
	}
	c.auth.authorize(req)
	c.hmac.sign(req, body)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.Failure(req.URL.Host, err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer := &Response{Status: resp.StatusCode, Header: resp.Header}
	if answer.Body, err = ReadAtMost(resp.Body, c.max); err != nil {
		return answer, c.Failure(req.URL.Host, err)
	}
	return answer, nil
}

// Requester returns the client and the headers, with the credentials, for a library that sends the requests itself.
func (c *Client) Requester() (*http.Client, http.Header) {
	r := &http.Request{Header: http.Header{}}
	for name, value := range c.headers {
		r.Header.Set(name, value)
	}
	c.auth.authorize(r)
	return c.http, r.Header
}

// Failure describes why there is no usable response of host. It omits the URL, which may contain a secret.
func (c *Client) Failure(host string, err error) error {
	var inURL *url.Error
	if errors.As(err, &inURL) {
		err = inURL.Err
	}
	switch {
	case errors.Is(err, ErrTooLarge):
		return fmt.Errorf("cannot read the response of %s: it has more than %d bytes: %w", host, c.max, err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s did not respond within %v", host, c.timeout)
	}
	return fmt.Errorf("cannot reach %s: %s%s", host, c.redact(err.Error()), c.remedy(err))
}

// remedy returns the setting to change after a failed handshake; "" for other errors.
func (c *Client) remedy(err error) string {
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var noTLS tls.RecordHeaderError
	switch {
	case errors.As(err, &authority):
		return ": set tls.ca to the certificate of its authority"
	case errors.As(err, &name):
		return ": use a host name in url for which the certificate is valid"
	case errors.As(err, &noTLS), errors.Is(err, http.ErrSchemeMismatch):
		return ": the server does not use TLS at this port; set url to " + cmp.Or(c.Scheme, "http") + "://"
	}
	return ""
}

const maxShown = 300 // bytes of a response in an error

// ResponseError returns an error that describes an unsuccessful response.
func (c *Client) ResponseError(r *Response) error {
	text := fmt.Sprintf("the server responded with status %d %s", r.Status, http.StatusText(r.Status))
	if location := r.Header.Get("Location"); r.Status/100 == 3 && location != "" {
		text += " to another URL: set url to the correct URL"
	}
	shown := strings.ToValidUTF8(strings.TrimSpace(c.redact(texts.Truncate(string(r.Body), 4*maxShown))), "\uFFFD")
	if len(shown) > maxShown {
		shown = strings.ToValidUTF8(shown[:maxShown], "") + "…"
	}
	if shown != "" {
		text += fmt.Sprintf(": %q", shown)
	}
	return errors.New(text)
}

// redact replaces the secrets of the settings in text: some servers repeat them.
func (c *Client) redact(text string) string {
	secrets := append([]string{c.auth.Token, c.auth.Password, c.hmac.HMACSecret}, c.Secrets...)
	for _, value := range c.headers {
		secrets = append(secrets, value)
	}
	for _, s := range secrets {
		if len(s) >= shortestSecret {
			text = strings.ReplaceAll(text, s, "***")
		}
	}
	return text
}

const shortestSecret = 4

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// ErrTooLarge is the error of a body that is larger than it may be.
var ErrTooLarge = errors.New("too large")

// ReadAtMost reads to the end, or returns ErrTooLarge if there are more than limit bytes.
func ReadAtMost(r io.Reader, limit int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(body)) > limit {
		return nil, ErrTooLarge
	}
	return body, err
}

// CheckURL parses and validates the text of the setting url.
func CheckURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.ContainsAny(text, " \t\r\n") {
		return nil, sdk.SettingError{Setting: "url", Message: "must be a URL such as https://example.com/events"}
	}
	return u, nil
}

// Compress returns a body compressed with gzip.
func Compress(body []byte) ([]byte, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(body); err != nil {
		return nil, err
	}
	err := w.Close()
	return b.Bytes(), err
}
