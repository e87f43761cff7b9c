package client

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

const pipelines = "pipelines"

// Pipelines returns all pipelines, by id.
func (c *Client) Pipelines(ctx context.Context, options ...Option) ([]rest.Pipeline, error) {
	return get[[]rest.Pipeline](ctx, c, "/v1/pipelines", options...)
}

// Pipeline returns a pipeline and its ETag.
func (c *Client) Pipeline(ctx context.Context, id string) (rest.Pipeline, string, error) {
	return with[rest.Pipeline](ctx, c, http.MethodGet, at(pipelines, id), nil, nil)
}

// CreatePipeline creates a stopped and empty pipeline. If the id is empty, the agent chooses one.
func (c *Client) CreatePipeline(
	ctx context.Context, id string, config rest.PipelineConfig, options ...Option,
) (rest.Pipeline, string, error) {
	return with[rest.Pipeline](ctx, c, http.MethodPost, "/v1/pipelines", map[string]any{"id": id, "config": config},
		options)
}

// UpdatePipeline changes name and description and returns the new ETag.
func (c *Client) UpdatePipeline(
	ctx context.Context, id string, config rest.PipelineConfig, options ...Option,
) (rest.Pipeline, string, error) {
	return with[rest.Pipeline](ctx, c, http.MethodPut, at(pipelines, id), map[string]any{"config": config}, options)
}

// DeletePipeline deletes a stopped and empty pipeline.
func (c *Client) DeletePipeline(ctx context.Context, id string, options ...Option) error {
	_, err := c.call(ctx, http.MethodDelete, at(pipelines, id), nil, nil, options)
	return err
}

// StartPipeline returns when the pipeline runs, or the reason why it does not.
func (c *Client) StartPipeline(ctx context.Context, id string, options ...Option) error {
	return c.act(ctx, id, "/start", options)
}

// StopPipeline returns when the pipeline has stopped.
func (c *Client) StopPipeline(ctx context.Context, id string, options ...Option) error {
	return c.act(ctx, id, "/stop", options)
}

// Force makes StopPipeline end without waiting for the outstanding records, which are delivered again.
func Force() Option {
	return func(r *http.Request) {
		text := []byte(`{"force":true}`)
		r.Header.Set("Content-Type", "application/json")
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	}
}

// RestartPipeline returns when the pipeline runs again.
func (c *Client) RestartPipeline(ctx context.Context, id string, options ...Option) error {
	return c.act(ctx, id, "/restart", options)
}

func (c *Client) act(ctx context.Context, id, action string, options []Option) error {
	_, err := c.call(ctx, http.MethodPost, at(pipelines, id, action), nil, nil, options)
	return err
}

// Status returns the complete status of a pipeline.
func (c *Client) Status(ctx context.Context, id string) (rest.PipelineStatus, error) {
	return get[rest.PipelineStatus](ctx, c, at(pipelines, id, "/status"))
}

// Trend returns the measurements of a pipeline in a window of time: spec.Last15Minutes, LastHour or LastDay.
func (c *Client) Trend(ctx context.Context, id, last string) (spec.Trend, error) {
	return get[spec.Trend](ctx, c, at(pipelines, id, "/trend"), Query("last", last))
}

// History returns the revisions of a pipeline, oldest first.
func (c *Client) History(ctx context.Context, id string) ([]spec.Revision, error) {
	return get[[]spec.Revision](ctx, c, at(pipelines, id, "/history"))
}

// Purge forgets the history and the events of a deleted pipeline.
func (c *Client) Purge(ctx context.Context, id string) error {
	_, err := c.call(ctx, http.MethodDelete, at(pipelines, id, "/history"), nil, nil, nil)
	return err
}

// Diff returns the difference between two generations of a pipeline. from and to are numbers, or the word running;
// empty ones are the latest generation and its predecessor.
func (c *Client) Diff(ctx context.Context, id, from, to string) (rest.Diff, error) {
	var options []Option
	if from != "" {
		options = append(options, Query("from", from))
	}
	if to != "" {
		options = append(options, Query("to", to))
	}
	return get[rest.Diff](ctx, c, at(pipelines, id, "/diff"), options...)
}

// Rollback declares the content of the revision again, except for its status. A running pipeline requires Live.
func (c *Client) Rollback(
	ctx context.Context, id string, revision int64, options ...Option,
) (rest.Pipeline, string, error) {
	return with[rest.Pipeline](ctx, c, http.MethodPost, at(pipelines, id, "/rollback"),
		rest.Rollback{Revision: revision}, options)
}

// RollbackFile writes the content of the revision, except for the status, to the file that declares the pipeline.
func (c *Client) RollbackFile(ctx context.Context, id string, revision int64, options ...Option) (
	rest.Pipeline, string, error) {
	return with[rest.Pipeline](ctx, c, http.MethodPost, at(pipelines, id, "/rollback"),
		rest.Rollback{Revision: revision, File: true}, options)
}

// Adopt hands a pipeline over to a file that declares it. path may be empty if only one file does.
func (c *Client) Adopt(ctx context.Context, id, path string, options ...Option) (rest.Pipeline, string, error) {
	return with[rest.Pipeline](ctx, c, http.MethodPost, at(pipelines, id, "/adopt"), rest.Adopt{Path: path}, options)
}

// Release hands a pipeline over from its file to the API.
func (c *Client) Release(ctx context.Context, id string, options ...Option) (rest.Pipeline, string, error) {
	return with[rest.Pipeline](ctx, c, http.MethodPost, at(pipelines, id, "/adopt"), rest.Adopt{Owner: spec.OwnerAPI},
		options)
}

// Export returns a pipeline as a pipeline file, without secrets.
func (c *Client) Export(ctx context.Context, id string) ([]byte, error) {
	var file []byte
	_, err := c.call(ctx, http.MethodPost, at(pipelines, id, "/export"), nil, &file, nil)
	return file, err
}

// ExportRevision returns a revision of a pipeline as a pipeline file.
func (c *Client) ExportRevision(ctx context.Context, id string, revision int64) ([]byte, error) {
	var file []byte
	_, err := c.call(ctx, http.MethodPost, at(pipelines, id, "/export"), nil, &file,
		[]Option{Query("revision", strconv.FormatInt(revision, 10))})
	return file, err
}

// Import declares the pipelines of a pipeline file in YAML, all or none. Replacing running pipelines requires Live.
func (c *Client) Import(ctx context.Context, file []byte, options ...Option) ([]rest.Pipeline, error) {
	options = append(options, func(r *http.Request) {
		r.Header.Set("Content-Type", "application/yaml")
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(file)), int64(len(file))
	})
	list, _, err := with[[]rest.Pipeline](ctx, c, http.MethodPost, "/v1/pipelines/import", nil, options)
	return list, err
}

// PlanDocument returns the changes that making a pipeline equal to doc would cause, and the hash to apply it with.
func (c *Client) PlanDocument(ctx context.Context, doc rest.PipelineDocument) (rest.DocumentDiff, error) {
	diff, _, err := with[rest.DocumentDiff](ctx, c, http.MethodPost, "/v1/pipelines/plan",
		rest.DocumentPlan{Config: doc}, nil)
	return diff, err
}

// ApplyDocument makes a pipeline equal to doc, and returns the changes. hash is the hash of the plan.
func (c *Client) ApplyDocument(
	ctx context.Context, doc rest.PipelineDocument, hash string, options ...Option,
) (rest.DocumentDiff, error) {
	diff, _, err := with[rest.DocumentDiff](ctx, c, http.MethodPost, "/v1/pipelines/apply",
		rest.DocumentApply{Config: doc, Hash: hash}, options)
	return diff, err
}

// DeadLetterQueue returns the dead-letter queue of a pipeline and its ETag.
func (c *Client) DeadLetterQueue(ctx context.Context, id string) (rest.DeadLetterQueue, string, error) {
	return with[rest.DeadLetterQueue](ctx, c, http.MethodGet, at(pipelines, id, "/dead-letter-queue"), nil, nil)
}

// UpdateDeadLetterQueue replaces the dead-letter queue of a pipeline.
func (c *Client) UpdateDeadLetterQueue(
	ctx context.Context,
	id string,
	q rest.DeadLetterQueue,
	options ...Option,
) (rest.DeadLetterQueue, string, error) {
	return with[rest.DeadLetterQueue](ctx, c, http.MethodPut, at(pipelines, id, "/dead-letter-queue"), q, options)
}
