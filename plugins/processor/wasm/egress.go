package wasm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/peer"
)

// EgressPolicy limits the access of processors to HTTP. The zero value permits none.
type EgressPolicy struct {
	Enabled          bool
	Allow            []string      // destinations that processors may request; none: any
	SecretRefs       []string      // names of secrets that processors may request; none: any
	Timeout          time.Duration // maximum time limit of a processor; 0: no bound
	MaxResponseBytes int64         // maximum response size of a processor; 0: no bound
}

// egressClient sends the HTTP requests of a processor, only to the destinations that the processor has declared.
type egressClient struct {
	allow       []destination
	secrets     []string
	timeout     time.Duration
	maxResponse int64
	log         *slog.Logger
	client      *http.Client
}

// destination is a scheme, host and port that the processor may reach.
type destination struct {
	scheme, host, port string
}

func (d destination) String() string { return d.scheme + "://" + net.JoinHostPort(d.host, d.port) }

// egressConfig is the access that a processor requests in its settings.
type egressConfig struct {
	// Allowed targets of HTTP requests of the processor: a comma-separated list of host, host:port, https://host:port,
	// or http://IP:port of a private address.
	Allow []string `json:"sdk.egress.allow"`
	// Timeout of an HTTP request of the processor.
	Timeout time.Duration `json:"sdk.egress.timeout" default:"30s" validate:"gt=0s"`
	// Maximum size of an HTTP response in bytes.
	MaxResponse int64 `json:"sdk.egress.maxResponseBytes" default:"4194304" validate:"gt=0"`
	// Names of secrets the processor may send as authorization: a comma list. The value of NAME is that of the
	// environment variable CONDUIT_SECRET_NAME.
	SecretRefs []string `json:"sdk.egress.secretRefs"`
}

// NewClient returns a client for the requested access, restricted by the policy. It returns nil if no destination is
// allowed.
func (p EgressPolicy) NewClient(c egressConfig, log *slog.Logger) (*egressClient, error) {
	var asked []destination
	for _, text := range c.Allow {
		d, err := parseDestination(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("cannot allow %q: %w", text, err)
		}
		asked = append(asked, d)
	}
	if !p.Enabled || len(asked) == 0 {
		if len(asked) > 0 {
			log.Warn("egress is not enabled (processors.egress.enabled): the processor cannot send HTTP requests")
		}
		return nil, nil
	}
	e := &egressClient{timeout: c.Timeout, maxResponse: c.MaxResponse, log: log}
	if p.Timeout > 0 {
		e.timeout = min(e.timeout, p.Timeout)
	}
	if p.MaxResponseBytes > 0 {
		e.maxResponse = min(e.maxResponse, p.MaxResponseBytes)
	}
	var err error
	if e.allow, err = p.permitted(asked, log); err != nil {
		return nil, err
	}
	for _, name := range c.SecretRefs {
		if name = strings.TrimSpace(name); len(p.SecretRefs) == 0 || slices.Contains(p.SecretRefs, name) {
			e.secrets = append(e.secrets, name)
		} else {
			log.Warn("the processor asks for a secret that processors.egress.secret-refs does not name", "secret", name)
		}
	}
	e.client = e.newClient()
	return e, nil
}

func (p EgressPolicy) permitted(asked []destination, log *slog.Logger) (allow []destination, err error) {
	var ceiling []destination
	for _, text := range p.Allow {
		d, err := parseDestination(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("cannot use processors.egress.allow: %q: %w", text, err)
		}
		ceiling = append(ceiling, d)
	}
	for _, d := range asked {
		if len(ceiling) == 0 || slices.Contains(ceiling, d) {
			allow = append(allow, d)
		} else {
			log.Warn("the processor asks for a destination that processors.egress.allow does not name", "destination",
				d.String())
		}
	}
	return allow, nil
}

// parseDestination reads host, host:port, https://host[:port] or http://IP[:port].
func parseDestination(text string) (d destination, err error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		scheme, rest = "https", text
	}
	d.scheme, d.host = scheme, rest
	switch {
	case scheme != "https" && scheme != "http":
		return d, fmt.Errorf("scheme %q is neither https nor http", scheme)
	case rest == "" || strings.ContainsAny(rest, "/*?#@ "):
		return d, errors.New("want host, host:port, https://host[:port] or http://IP[:port], without path or wildcard")
	}
	if _, err := netip.ParseAddr(rest); err != nil && strings.Contains(rest, ":") {
		if d.host, d.port, err = net.SplitHostPort(rest); err != nil {
			return d, err
		}
		if n, err := strconv.Atoi(d.port); err != nil || n < 1 || n > 65535 {
			return d, fmt.Errorf("%q is no port", d.port)
		}
	}
	d.host = strings.ToLower(strings.Trim(d.host, "[]"))
	if d.port == "" {
		d.port = defaultPort(scheme)
	}
	if scheme == "http" {
		if ip, err := netip.ParseAddr(d.host); err != nil || !(ip.IsPrivate() || ip.IsLoopback()) {
			return d, errors.New("http is only for addresses of private networks and of this host: use https")
		}
	}
	return d, nil
}

func defaultPort(scheme string) string {
	if scheme == "http" {
		return "80"
	}
	return "443"
}

// egressRequest is one HTTP request of a guest.
type egressRequest struct {
	Method, URL string
	Header      http.Header
	Body        []byte
	Secret      string // name of the secret to send as authorization; empty: none
}

// egressResponse is the response to an egressRequest.
type egressResponse struct {
	Status int
	Header http.Header
	Body   []byte
}

// Reasons why a request is not sent or has no response.
var (
	errForbidden = errors.New("forbidden")
	errInvalid   = errors.New("invalid request")
	errTooLarge  = errors.New("answer too large")
)

// reserved are the headers that a guest may not set.
var reserved = []string{"Host", "Authorization", "Accept-Encoding", "Connection", "Content-Length", "Transfer-Encoding",
	"Upgrade", "Te", "Trailer", "Keep-Alive"}

// Do sends a request. The error is errForbidden, errInvalid or errTooLarge, or describes why there is no response.
func (e *egressClient) Do(ctx context.Context, r egressRequest) (egressResponse, error) {
	req, err := e.check(ctx, r)
	if err != nil {
		e.log.Warn("egress call denied", "reason", err)
		return egressResponse{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	start := time.Now()
	answer, err := e.send(req.WithContext(ctx))
	if errors.Is(err, errForbidden) {
		e.log.Warn("egress call denied", "method", req.Method, "request_host", req.URL.Host, "reason", err)
		return answer, err
	}
	e.log.Info("egress call", "decision", "allowed", "method", req.Method, "request_host", req.URL.Host,
		"status", answer.Status, "response_bytes", len(answer.Body), "latency", time.Since(start))
	return answer, err
}

// check builds the request if it is allowed. Its errors contain no text of the request: a URL may hold a secret.
func (e *egressClient) check(ctx context.Context, r egressRequest) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, r.Method, r.URL, strings.NewReader(string(r.Body)))
	if err != nil || req.URL.User != nil || req.URL.Hostname() == "" {
		return nil, fmt.Errorf("%w: cannot use its method or URL", errInvalid)
	}
	if d := destinationOf(req.URL); !slices.Contains(e.allow, d) {
		return nil, fmt.Errorf("%w: sdk.egress.allow does not name %s", errForbidden, d)
	}
	for name, values := range r.Header {
		name = http.CanonicalHeaderKey(name)
		if slices.Contains(reserved, name) || strings.HasPrefix(name, "Proxy-") {
			return nil, fmt.Errorf("%w: header %s may not be set", errInvalid, name)
		}
		req.Header[name] = values
	}
	if r.Secret != "" {
		value, ok := e.secret(r.Secret)
		if !ok {
			return nil, fmt.Errorf("%w: secret %q is not in sdk.egress.secretRefs, or has no value", errForbidden,
				r.Secret)
		}
		req.Header.Set("Authorization", value)
	}
	return req, nil
}

func destinationOf(u *url.URL) destination {
	d := destination{scheme: u.Scheme, host: strings.ToLower(u.Hostname()), port: u.Port()}
	if d.port == "" {
		d.port = defaultPort(u.Scheme)
	}
	return d
}

func (e *egressClient) secret(name string) (string, bool) {
	if !slices.Contains(e.secrets, name) {
		return "", false
	}
	variable := strings.Map(func(c rune) rune {
		if c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
			return c
		}
		return '_'
	}, strings.ToUpper(name))
	value := os.Getenv("CONDUIT_SECRET_" + variable)
	return value, value != ""
}

func (e *egressClient) send(req *http.Request) (answer egressResponse, err error) {
	resp, err := e.client.Do(req)
	if err != nil {
		return answer, err
	}
	defer resp.Body.Close()
	answer.Status, answer.Header = resp.StatusCode, resp.Header
	answer.Body, err = io.ReadAll(io.LimitReader(resp.Body, e.maxResponse+1))
	if err == nil && int64(len(answer.Body)) > e.maxResponse {
		return egressResponse{Status: answer.Status}, fmt.Errorf("%w: more than %d bytes", errTooLarge, e.maxResponse)
	}
	return answer, err
}

// newClient returns a client that follows no redirect, uses no proxy, and connects only to permitted addresses.
func (e *egressClient) newClient() *http.Client {
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				return e.dial(ctx, dialer, network, address)
			},
			ForceAttemptHTTP2:   true,
			TLSHandshakeTimeout: 10 * time.Second,
			MaxIdleConnsPerHost: 4,
			IdleConnTimeout:     time.Minute,

			MaxResponseHeaderBytes: peer.MaxHeader,
		},
	}
}

// dial resolves the address and connects to the address that was checked, because a second resolution may return
// another one.
func (e *egressClient) dial(ctx context.Context, dialer *net.Dialer, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	err = fmt.Errorf("%w: %s has no address", errForbidden, host)
	for _, ip := range addrs {
		ip = ip.Unmap()
		if !isPublic(ip) && !e.lists(ip, port) {
			err = fmt.Errorf("%w: the address of %s is not a public one, and sdk.egress.allow does not name it",
				errForbidden, host)
			continue
		}
		var conn net.Conn
		if conn, err = dialer.DialContext(ctx, network, net.JoinHostPort(ip.String(), port)); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

func (e *egressClient) lists(ip netip.Addr, port string) bool {
	return slices.ContainsFunc(e.allow, func(d destination) bool {
		listed, err := netip.ParseAddr(d.host)
		return err == nil && listed.Unmap() == ip && d.port == port
	})
}

// special lists the ranges that do not lead to public hosts: carrier-grade NAT, protocol assignments, documentation and
// benchmarks, NAT64, 6to4, Teredo, and the like.
var special = func() (out []netip.Prefix) {
	for _, text := range []string{"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24",
		"198.18.0.0/15", "198.51.100.0/24",
		"203.0.113.0/24", "240.0.0.0/4", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/32", "2001:db8::/32",
		"2002::/16", "::/96"} {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}()

func isPublic(ip netip.Addr) bool {
	if !ip.IsGlobalUnicast() || ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsMulticast() ||
		ip.IsUnspecified() || ip.Zone() != "" {
		return false
	}
	return !slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(ip) })
}
