package client

//lint:file-ignore SA1019 the successor of nhooyr.io/websocket has the same API under another path

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"nhooyr.io/websocket"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// Info returns the version of the agent.
func (c *Client) Info(ctx context.Context) (rest.Info, error) {
	return get[rest.Info](ctx, c, "/info")
}

// Agent returns the agent's description of the process, the store and the settings.
func (c *Client) Agent(ctx context.Context) (rest.Agent, error) {
	return get[rest.Agent](ctx, c, "/v1/agent")
}

// Healthy returns nil if the agent answers.
func (c *Client) Healthy(ctx context.Context) error {
	_, err := get[rest.Health](ctx, c, "/healthz")
	return err
}

// Ready returns the number of pipelines in each state. While the agent is not ready it returns an error, and the
// agent's explanation.
func (c *Client) Ready(ctx context.Context) (body rest.Readiness, err error) {
	r, err := c.request(ctx, http.MethodGet, "/readyz", nil, nil)
	if err != nil {
		return body, err
	}
	response, err := c.do(r)
	if err != nil {
		return body, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return body, fmt.Errorf("cannot read the answer of the agent: %w", err)
	}
	err = json.Unmarshal(text, &body)
	switch {
	case response.StatusCode == http.StatusServiceUnavailable:
		return body, fmt.Errorf("the agent is not ready: %w", rest.ParseError(response.StatusCode, text))
	case response.StatusCode/100 != 2:
		return body, rest.ParseError(response.StatusCode, text)
	case err != nil:
		return body, fmt.Errorf("cannot read the answer to GET /readyz: %w", err)
	}
	return body, nil
}

// Metrics returns the metrics in the text format of Prometheus.
func (c *Client) Metrics(ctx context.Context) ([]byte, error) { return get[[]byte](ctx, c, "/metrics") }

// Statuses returns the complete status of every pipeline, by id.
func (c *Client) Statuses(ctx context.Context) ([]rest.PipelineStatus, error) {
	return get[[]rest.PipelineStatus](ctx, c, "/v1/status")
}

// Files returns the states of the pipeline files, by path.
func (c *Client) Files(ctx context.Context) ([]spec.FileState, error) {
	return get[[]spec.FileState](ctx, c, "/v1/files")
}

// Reload makes the agent read the pipeline files now, and returns their states when desired state is in line. With
// prune, the absence of all files counts.
func (c *Client) Reload(ctx context.Context, prune bool) ([]spec.FileState, error) {
	files, _, err := with[[]spec.FileState](ctx, c, http.MethodPost, "/v1/files/reload", rest.Reload{Prune: prune}, nil)
	return files, err
}

// Plan returns the changes that the current pipeline files would make.
func (c *Client) Plan(ctx context.Context) (spec.Plan, error) {
	return get[spec.Plan](ctx, c, "/v1/plan")
}

// PlanFiles returns the changes that pipeline files would make once they are saved.
func (c *Client) PlanFiles(ctx context.Context, request spec.PlanRequest) (spec.Plan, error) {
	plan, _, err := with[spec.Plan](ctx, c, http.MethodPost, "/v1/plan", request, nil)
	return plan, err
}

// DryRun returns the output of a pipeline's processors for records.
func (c *Client) DryRun(ctx context.Context, request spec.DryRunRequest) (spec.DryRun, error) {
	result, _, err := with[spec.DryRun](ctx, c, http.MethodPost, "/v1/dry-run", request, nil)
	return result, err
}

// Edit returns the problems of a pipeline file in an editor, and completions at the cursor.
func Edit(ctx context.Context, c *Client, request rest.EditorRequest) (rest.EditorAnswer, error) {
	answer, _, err := with[rest.EditorAnswer](ctx, c, http.MethodPost, "/v1/editor", request, nil)
	return answer, err
}

// Docs returns a file of the documentation by its name, such as start.md.
func Docs(ctx context.Context, c *Client, name string) ([]byte, error) {
	return get[[]byte](ctx, c, "/docs/"+url.PathEscape(name))
}

// Events returns up to limit events after the event with this id, oldest first; the newest when after is negative. With
// a limit of 0 the agent chooses one.
func (c *Client) Events(ctx context.Context, after int64, limit int) ([]spec.Event, error) {
	var options []Option
	if after >= 0 {
		options = append(options, Query("after", strconv.FormatInt(after, 10)))
	}
	if limit > 0 {
		options = append(options, Query("limit", strconv.Itoa(limit)))
	}
	return get[[]spec.Event](ctx, c, "/v1/events", options...)
}

// WatchEvents calls f with events as they happen, starting after the given id, or from now on when it is negative. It
// returns when ctx ends, the agent ends, or f fails.
func (c *Client) WatchEvents(ctx context.Context, after int64, f func(spec.Event) error) error {
	options := []Option{func(r *http.Request) { r.Header.Set("Accept", "text/event-stream") }}
	if after >= 0 {
		options = append(options, Query("after", strconv.FormatInt(after, 10)))
	}
	r, err := c.request(ctx, http.MethodGet, "/v1/events", nil, options)
	if err != nil {
		return err
	}
	response, err := c.send(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	lines := bufio.NewReader(response.Body)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return ended(ctx, err)
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var e spec.Event
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return fmt.Errorf("cannot read event: %w", err)
		}
		if err := f(e); err != nil {
			return err
		}
	}
}

// ended returns the reason why a stream ended.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, io.EOF) || websocket.CloseStatus(err) == websocket.StatusGoingAway {
		return io.EOF
	}
	return fmt.Errorf("cannot continue reading: %w", err)
}

// Message is a message of the inspector: a record in JSON, or the number of dropped records.
type Message struct {
	Result  json.RawMessage `json:"result"`
	Dropped uint64          `json:"dropped"`
}

// Inspect calls f with the records that pass a connector. Filters have the form operation=NAME or metadata.KEY=VALUE.
// It returns io.EOF when the agent ends, and otherwise the error of ctx, the connection, or f. Query("rate", "10")
// limits the records per second.
func (c *Client) Inspect(
	ctx context.Context, connectorID string, filters []string, f func(Message) error, options ...Option,
) error {
	return c.inspect(ctx, at(connectors, connectorID, "/inspect"), filters, f, options)
}

// InspectIn is like Inspect for the records that come to a destination, before its processors.
func (c *Client) InspectIn(
	ctx context.Context, destinationID string, filters []string, f func(Message) error, options ...Option,
) error {
	return c.inspect(ctx, at(connectors, destinationID, "/inspect-in"), filters, f, options)
}

// InspectProcessor is like Inspect for the records that come to a processor, or, if after is set, for the records that
// it returns. InspectProcessor, Edit and Docs are not methods, so that the binary for small hosts, which does not use
// them, does not contain them.
func InspectProcessor(
	ctx context.Context, c *Client, processorID string, after bool, filters []string, f func(Message) error,
	options ...Option,
) error {
	side := "/inspect-in"
	if after {
		side = "/inspect-out"
	}
	return c.inspect(ctx, at(processors, processorID, side), filters, f, options)
}

func (c *Client) inspect(
	ctx context.Context, path string, filters []string, f func(Message) error, options []Option,
) error {
	for _, filter := range filters {
		options = append(options, Query("filter", filter))
	}
	r, err := c.request(ctx, http.MethodGet, path, nil, options)
	if err != nil {
		return err
	}
	conn, response, err := websocket.Dial(ctx, r.URL.String(),
		&websocket.DialOptions{HTTPClient: c.HTTP, HTTPHeader: r.Header})
	if err != nil {
		return dialError(err, c.URL, response)
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(-1)
	for {
		_, text, err := conn.Read(ctx)
		if err != nil {
			return ended(ctx, err)
		}
		var m Message
		if err := json.Unmarshal(text, &m); err != nil {
			return fmt.Errorf("cannot read record: %w", err)
		}
		if err := f(m); err != nil {
			conn.Close(websocket.StatusNormalClosure, "")
			return err
		}
	}
}

func dialError(err error, at string, response *http.Response) error {
	var unreachable *url.Error
	if response == nil || errors.As(err, &unreachable) {
		return fmt.Errorf("cannot reach the agent at %s: %w", at, err)
	}
	body, _ := io.ReadAll(io.LimitReader(response.Body, 1024)) // a partial body is good enough
	return rest.ParseError(response.StatusCode, body)
}

// TestNotifications makes the agent send a notification to every target, and returns the results.
func (c *Client) TestNotifications(ctx context.Context) ([]spec.NotificationResult, error) {
	results, _, err := with[[]spec.NotificationResult](ctx, c, http.MethodPost, "/v1/notifications/test", nil, nil)
	return results, err
}

// Logs returns up to limit log lines of a pipeline after the line with the id after: the newest ones, oldest first.
// With an empty id these are the lines of the agent and of all pipelines. If there are none and wait is set, it waits
// some seconds at most for one.
func (c *Client) Logs(
	ctx context.Context, pipelineID string, after int64, limit int, wait bool,
) ([]spec.LogLine, error) {
	options := []Option{Query("after", strconv.FormatInt(after, 10)), Query("limit", strconv.Itoa(limit))}
	if wait {
		options = append(options, Query("wait", "20"))
	}
	path := "/v1/logs"
	if pipelineID != "" {
		path = at(pipelines, pipelineID, "/logs")
	}
	return get[[]spec.LogLine](ctx, c, path, options...)
}
