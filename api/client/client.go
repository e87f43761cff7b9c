// Package client is a Go client of the REST API.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/peer"
)

// Client accesses the API of an agent. URL must be set.
type Client struct {
	URL   string       // of the agent, for example http://localhost:8080
	Token string       // sent when not empty
	HTTP  *http.Client // nil: one like http.DefaultClient
}

// Error is an error response of the agent. errors.As finds it in every error of a Client, except in errors about
// reaching the agent.
type Error = rest.Error

// Reason returns the reason of an Error, "" for any other error.
func Reason(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

// Option changes one request.
type Option func(*http.Request)

// IfMatch makes the agent refuse a change unless the resource still has the ETag.
func IfMatch(etag string) Option {
	return func(r *http.Request) { r.Header.Set("If-Match", etag) }
}

// Key makes a request safe to repeat: the agent performs it once.
func Key(key string) Option {
	return func(r *http.Request) { r.Header.Set("Idempotency-Key", key) }
}

// Query adds a parameter, such as wait or live.
func Query(name, value string) Option {
	return func(r *http.Request) {
		query := r.URL.Query()
		query.Add(name, value)
		r.URL.RawQuery = query.Encode()
	}
}

// NoWait makes the agent answer when the request is recorded, without waiting for its completion.
func NoWait() Option { return Query("wait", "0") }

// Live allows a change of a running pipeline.
func Live() Option { return Query("live", "true") }

// Generation sets to to the resulting generation of the pipeline once the request is answered, 0 if the answer has
// none.
func Generation(to *int64) Option {
	return func(r *http.Request) { *r = *r.WithContext(context.WithValue(r.Context(), generationKey{}, to)) }
}

type generationKey struct{}

// maxAnswer is the maximum size of an answer in bytes.
const maxAnswer = 64 << 20

// call sends in as JSON, if it is not nil, and reads the answer into out, if that is not
// nil. It returns the ETag of the answer.
func (c *Client) call(
	ctx context.Context, method, path string, in, out any, options []Option,
) (etag string, err error) {
	r, err := c.request(ctx, method, path, in, options)
	if err != nil {
		return "", err
	}
	response, err := c.send(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	if to, ok := r.Context().Value(generationKey{}).(*int64); ok {
		*to, _ = strconv.ParseInt(response.Header.Get(rest.HeaderGeneration), 10, 64)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err == nil {
		err = assign(body, out)
	}
	if err != nil {
		return "", fmt.Errorf("cannot read the answer to %s %s: %w", method, path, err)
	}
	return response.Header.Get("ETag"), nil
}

func assign(body []byte, out any) error {
	switch out := out.(type) {
	case nil:
		return nil
	case *[]byte:
		*out = body
		return nil
	default:
		return json.Unmarshal(body, out)
	}
}

func (c *Client) request(ctx context.Context, method, path string, in any, options []Option) (*http.Request, error) {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("cannot encode the request: %w", err)
		}
		body = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.URL, "/")+path, body)
	if err != nil {
		return nil, fmt.Errorf("cannot make the request: %w", err)
	}
	if in != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	for _, option := range options {
		option(r)
	}
	return r, nil
}

// send returns a successful answer. The caller must close its body.
func (c *Client) send(r *http.Request) (*http.Response, error) {
	response, err := c.do(r)
	if err != nil || response.StatusCode/100 == 2 {
		return response, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("cannot read the answer of the agent: %w", err)
	}
	return nil, rest.ParseError(response.StatusCode, body)
}

var defaultClient = &http.Client{Transport: peer.Transport()}

// do returns the answer, whatever its status. The caller must close its body.
func (c *Client) do(r *http.Request) (*http.Response, error) {
	client := c.HTTP
	if client == nil {
		client = defaultClient
	}
	response, err := client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("cannot reach the agent at %s: %w", c.URL, err)
	}
	return response, nil
}

// get reads the resource at path.
func get[T any](ctx context.Context, c *Client, path string, options ...Option) (v T, err error) {
	_, err = c.call(ctx, http.MethodGet, path, nil, &v, options)
	return v, err
}

// with sends in and returns the answer and its ETag.
func with[T any](
	ctx context.Context, c *Client, method, path string, in any, options []Option,
) (v T, etag string, err error) {
	etag, err = c.call(ctx, method, path, in, &v, options)
	return v, etag, err
}

// at returns a path with id as a single segment.
func at(collection, id string, more ...string) string {
	return "/v1/" + collection + "/" + url.PathEscape(id) + strings.Join(more, "")
}
