package http

import (
	"bytes"
	"context"
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
	"github.com/conduit-agent/conduit/spec/texts"
)

// client sends requests to one host.
type client struct {
	auth    *authSettings
	headers map[string]string
	timeout time.Duration
	max     int64 // maximum size of a response, in bytes
	http    *http.Client

	transport *http.Transport // transport of http; set up before the first request
}

const maxIdle = 2 // idle connections; requests are sent one at a time

// newClient returns a client. follow reports whether it follows redirects to the same host.
func newClient(
	a *authSettings, t *common.TLS, headers map[string]string, timeout time.Duration, maxBytes int64, follow bool,
) (*client, error) {
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
	c := &client{auth: a, headers: headers, timeout: timeout, max: maxBytes, http: &http.Client{Transport: transport},
		transport: transport}
	c.http.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if !follow {
			return http.ErrUseLastResponse
		}
		return sameHost(req, via)
	}
	return c, nil
}

const (
	dialTime     = 10 * time.Second
	keepAlive    = 30 * time.Second
	mostRedirect = 10
)

// sameHost refuses redirects to other hosts: the request may carry a token.
func sameHost(req *http.Request, via []*http.Request) error {
	if req.URL.Host != via[0].URL.Host || req.URL.Scheme != via[0].URL.Scheme {
		return errors.New("the server redirects to another server, which must not get the request")
	}
	if len(via) > mostRedirect {
		return errors.New("the server redirected too often")
	}
	return nil
}

// response is a response with its complete body.
type response struct {
	status int
	header http.Header
	body   []byte
}

// do sends one request and reads the response. With an error, the response is nil or incomplete.
func (c *client) do(ctx context.Context, method, target string, body []byte, header http.Header) (*response, error) {
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
	c.auth.sign(req, body)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.failure(req, err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer := &response{status: resp.StatusCode, header: resp.Header}
	if answer.body, err = readAtMost(resp.Body, c.max); err != nil {
		return answer, c.failure(req, err)
	}
	return answer, nil
}

// failure describes why there is no usable response. It omits the URL, which may contain a secret.
func (c *client) failure(req *http.Request, err error) error {
	var inURL *url.Error
	if errors.As(err, &inURL) {
		err = inURL.Err
	}
	switch {
	case errors.Is(err, errTooLarge):
		return fmt.Errorf("cannot read the response of %s: it has more than %d bytes: %w", req.URL.Host, c.max, err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s did not respond within %v", req.URL.Host, c.timeout)
	}
	return fmt.Errorf("cannot reach %s: %s", req.URL.Host, c.redact(err.Error()))
}

const mostShown = 300 // bytes of a response in an error

// responseError returns an error that describes an unsuccessful response.
func (c *client) responseError(r *response) error {
	text := fmt.Sprintf("the server responded with status %d %s", r.status, http.StatusText(r.status))
	if location := r.header.Get("Location"); r.status/100 == 3 && location != "" {
		text += " to another URL: set url to the correct URL"
	}
	shown := strings.ToValidUTF8(strings.TrimSpace(c.redact(texts.Truncate(string(r.body), 4*mostShown))), "\uFFFD")
	if len(shown) > mostShown {
		shown = strings.ToValidUTF8(shown[:mostShown], "") + "…"
	}
	if shown != "" {
		text += fmt.Sprintf(": %q", shown)
	}
	return errors.New(text)
}

// redact replaces the secrets of the settings in text: some servers repeat them.
func (c *client) redact(text string) string {
	secrets := c.auth.secrets()
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

func (c *client) close() { c.http.CloseIdleConnections() }

var errTooLarge = errors.New("too large")

// readAtMost reads to the end, or returns errTooLarge if there are more than limit bytes.
func readAtMost(r io.Reader, limit int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(body)) > limit {
		return nil, errTooLarge
	}
	return body, err
}
