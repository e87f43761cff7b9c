// Package httpcall sends the HTTP requests of processors, with a time limit, a bounded response, retries after
// temporary failures, and errors without URLs and tokens.
package httpcall

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/plugins/peer"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

// Retry configures how often and after which pauses a request is retried. The pauses grow exponentially, with jitter.
// Attempts are counted per request.
type Retry struct {
	Count    int     // attempts after the first
	Factor   float64 // growth factor of the pauses; 0: 2
	Min, Max time.Duration
}

// Client sends requests. It is safe for concurrent use.
type Client struct {
	Timeout     time.Duration // for each attempt, including reading the response
	MaxResponse int64         // maximum bytes of a response; sdk.Budget bounds it, too
	Retry       Retry
	Secrets     []string // texts that errors must not contain

	// Accepts reports whether a status is accepted; nil: statuses below 400 are.
	Accepts func(status int) bool
}

// Request is a request to send.
type Request struct {
	Method, URL string
	Header      http.Header
	Body        []byte // nil: none
}

// Response is the response to a request.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// StatusError is the error for a status that is not accepted.
type StatusError struct {
	Status int
	Body   string // beginning of the response, without secrets
}

// Error returns the status and the beginning of the response.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("the server answered %d %s", e.Status, http.StatusText(e.Status))
	if e.Body != "" {
		text += fmt.Sprintf(": %q", e.Body)
	}
	return text
}

// CheckURL checks that a request can be sent to a URL. The error does not repeat the URL, which may hold a secret.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return errors.New("it is no URL")
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return errors.New("want a URL that begins with http:// or https:// and a host")
	}
	return nil
}

// maxShown is the maximum length of a response in an error.
const maxShown = 300

// transport is shared by all processors, so that they share connections.
var transport = func() http.RoundTripper {
	t := peer.Transport()
	t.DialContext = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	t.MaxIdleConnsPerHost = 32
	return t
}()

// client follows redirects to the same host only, because the headers of a request may hold tokens.
var client = &http.Client{Transport: transport, CheckRedirect: func(req *http.Request, via []*http.Request) error {
	if req.URL.Host != via[0].URL.Host || req.URL.Scheme != via[0].URL.Scheme {
		return errors.New("the server redirects to another one, which may not get the request")
	}
	if len(via) > 10 {
		return errors.New("the server redirects too often")
	}
	return nil
}}

// Do sends the request, and retries it after temporary failures: no response, or a status of 429 or 5xx. It returns
// when a response is accepted, when the attempts are used up, or when ctx ends.
func (c *Client) Do(ctx context.Context, r Request) (Response, error) {
	for try := 0; ; try++ {
		answer, err := c.once(ctx, r)
		if err == nil || ctx.Err() != nil {
			return answer, cmp.Or(ctx.Err(), err)
		}
		pause, again := c.pause(try, answer, err)
		if !again {
			if try > 0 {
				err = fmt.Errorf("%w (the last of %d tries)", err, try+1)
			}
			return answer, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return answer, ctx.Err()
		case <-timer.C:
		}
	}
}

// pause returns the time to wait before the next attempt, and whether there is one.
func (c *Client) pause(try int, answer Response, err error) (time.Duration, bool) {
	var status *StatusError
	if errors.As(err, &status) && status.Status != http.StatusTooManyRequests && status.Status < 500 ||
		errors.Is(err, errInvalid) || errors.Is(err, ErrTooLarge) {
		return 0, false
	}
	if try >= c.Retry.Count {
		return 0, false
	}
	factor := c.Retry.Factor
	if factor == 0 {
		factor = 2
	}
	longest := max(c.Retry.Max, c.Retry.Min)
	pause := time.Duration(min(float64(c.Retry.Min)*math.Pow(factor, float64(try)), float64(longest)))
	pause = pause/2 + rand.N(pause/2+1) // jitter: clients that failed together must not retry together
	if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && seconds >= 0 {
		pause = min(max(pause, time.Duration(seconds)*time.Second), longest)
	}
	return pause, true
}

// ErrTooLarge reports that the response exceeds its size limit.
var ErrTooLarge = errors.New("the answer is too large")

var errInvalid = errors.New("cannot make the request")

func (c *Client) once(ctx context.Context, r Request) (answer Response, err error) {
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Timeout)
		defer cancel()
	}
	var body io.Reader
	if r.Body != nil {
		body = bytes.NewReader(r.Body)
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, r.URL, body)
	if err != nil {
		return answer, fmt.Errorf("%w: its method or URL is not valid", errInvalid)
	}
	if r.Header != nil {
		req.Header = r.Header.Clone()
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer, c.failure(req, err)
	}
	defer resp.Body.Close()
	answer.Status, answer.Header = resp.StatusCode, resp.Header
	most := min(c.MaxResponse, int64(sdk.Budget(ctx)))
	answer.Body, err = io.ReadAll(io.LimitReader(resp.Body, most+1))
	switch {
	case err != nil:
		return answer, c.failure(req, err)
	case int64(len(answer.Body)) > most:
		return answer, fmt.Errorf("%w: it has more than %d bytes", ErrTooLarge, most)
	case !c.accepts(answer.Status):
		return answer, &StatusError{answer.Status, c.shown(answer.Body)}
	}
	return answer, nil
}

func (c *Client) accepts(status int) bool {
	if c.Accepts != nil {
		return c.Accepts(status)
	}
	return status < 400
}

// failure returns the reason why there is no response, without the URL, which may hold a secret.
func (c *Client) failure(req *http.Request, err error) error {
	var inURL *url.Error
	if errors.As(err, &inURL) {
		err = inURL.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s did not respond within %v", req.URL.Host, c.Timeout)
	}
	return fmt.Errorf("cannot reach %s: %s", req.URL.Host, c.redact(err.Error()))
}

// shown returns the beginning of a response for an error.
func (c *Client) shown(body []byte) string {
	text := c.redact(string(body))
	if len(text) > maxShown {
		text = text[:maxShown] + "…"
	}
	return strings.ToValidUTF8(strings.TrimSpace(text), "\uFFFD")
}

func (c *Client) redact(text string) string {
	for _, secret := range c.Secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	return text
}
