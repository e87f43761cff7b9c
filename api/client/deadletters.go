package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// DeadLetterTotals returns the number of dead letters of each pipeline.
func (c *Client) DeadLetterTotals(ctx context.Context) ([]spec.DeadLetterTotals, error) {
	return get[[]spec.DeadLetterTotals](ctx, c, "/v1/dead-letters")
}

// DeadLetters returns a page of dead letters, newest first, with ids below before; 0 begins
// with the newest.
func (c *Client) DeadLetters(
	ctx context.Context, pipeline string, f spec.DeadLetterFilter, before int64, limit int, options ...Option,
) (spec.DeadLetterPage, error) {
	options = append(append(filterQuery(f), Query("limit", strconv.Itoa(limit))), options...)
	if before > 0 {
		options = append(options, Query("before", strconv.FormatInt(before, 10)))
	}
	return get[spec.DeadLetterPage](ctx, c, at(pipelines, pipeline, "/dead-letters"), options...)
}

// DeadLetter returns a dead letter with its record.
func (c *Client) DeadLetter(ctx context.Context, pipeline, id string) (spec.DeadLetter, error) {
	return get[spec.DeadLetter](ctx, c, deadLetterAt(pipeline, id))
}

// EditDeadLetter replaces the record of a dead letter.
func (c *Client) EditDeadLetter(
	ctx context.Context, pipeline, id string, record json.RawMessage,
) (spec.DeadLetter, error) {
	l, _, err := with[spec.DeadLetter](ctx, c, http.MethodPut, deadLetterAt(pipeline, id),
		rest.DeadLetterEdit{Record: record}, nil)
	return l, err
}

// DropDeadLetters drops the dead letters with these ids, or the matches of the filter, or, with neither, all. It
// returns their number.
func (c *Client) DropDeadLetters(
	ctx context.Context, pipeline string, ids []int64, f spec.DeadLetterFilter,
) (int64, error) {
	options := filterQuery(f)
	switch {
	case len(ids) > 0:
		options = append(options, Query("ids", joined(ids)))
	case f == spec.DeadLetterFilter{}:
		options = append(options, Query("all", "true"))
	}
	var dropped rest.DeadLettersDropped
	_, err := c.call(ctx, http.MethodDelete, at(pipelines, pipeline, "/dead-letters"), nil, &dropped, options)
	return dropped.Dropped, err
}

func deadLetterAt(pipeline, id string) string {
	return at(pipelines, pipeline, "/dead-letters/", url.PathEscape(id))
}

func joined(ids []int64) string {
	var text []string
	for _, id := range ids {
		text = append(text, strconv.FormatInt(id, 10))
	}
	return strings.Join(text, ",")
}

func filterQuery(f spec.DeadLetterFilter) (options []Option) {
	add := func(name, value string) {
		if value != "" {
			options = append(options, Query(name, value))
		}
	}
	add("error", f.Error)
	add("key", f.Key)
	add("stage", string(f.Stage))
	add("since", timeText(f.Since))
	add("until", timeText(f.Until))
	return options
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// ReplayDeadLetters begins to replay dead letters.
func (c *Client) ReplayDeadLetters(
	ctx context.Context, pipeline string, request spec.ReplayRequest,
) (spec.Replay, error) {
	status, _, err := with[spec.Replay](ctx, c, http.MethodPost, at(pipelines, pipeline, replayPath), request, nil)
	return status, err
}

// Replay returns the progress of the current or last replay.
func (c *Client) Replay(ctx context.Context, pipeline string) (spec.Replay, error) {
	return get[spec.Replay](ctx, c, at(pipelines, pipeline, replayPath))
}

// CancelReplay ends a replay once its outstanding records are settled.
func (c *Client) CancelReplay(ctx context.Context, pipeline string) (spec.Replay, error) {
	status, _, err := with[spec.Replay](ctx, c, http.MethodDelete, at(pipelines, pipeline, replayPath), nil, nil)
	return status, err
}

const replayPath = "/dead-letter-replay"
