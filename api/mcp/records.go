package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

type sample struct {
	Stage   string   `json:"stage" jsonschema:"id of a connector or processor, such as orders:shop"`
	Before  bool     `json:"before,omitempty" jsonschema:"records before a processor, or before those of a destination"`
	Count   int      `json:"count,omitempty" jsonschema:"number of records; default 3, at most 50"`
	Seconds float64  `json:"seconds,omitempty" jsonschema:"maximum time to wait; default 5, at most 20"`
	Filters []string `json:"filters,omitempty" jsonschema:"such as operation=create or metadata.KEY=VALUE; all must match"`
}

// errEnough ends an inspection.
var errEnough = errors.New("enough records")

func sampleRecords(ctx context.Context, c *client.Client, in sample) (any, error) {
	count := limited(in.Count, 3, 50)
	if in.Seconds <= 0 {
		in.Seconds = 5
	}
	limited, cancel := context.WithTimeout(ctx, time.Duration(min(in.Seconds, 20)*float64(time.Second)))
	defer cancel()
	var records []json.RawMessage
	size, dropped := 0, uint64(0)
	inspect, err := inspector(ctx, c, in.Stage, in.Before)
	if err != nil {
		return nil, err
	}
	err = inspect(limited, in.Filters, func(m client.Message) error {
		dropped += m.Dropped
		if m.Result == nil {
			return nil
		}
		text, err := readable(m.Result)
		if err != nil {
			return err
		}
		records = append(records, text)
		if size += len(text); len(records) >= count || size > maxAnswer {
			return errEnough
		}
		return nil
	}, client.Query("rate", strconv.Itoa(count)))
	switch {
	case errors.Is(err, errEnough), errors.Is(err, io.EOF):
	case err != nil && limited.Err() != nil && ctx.Err() == nil: // the time is over
	default:
		if err != nil {
			return nil, err
		}
	}
	answer, err := listed(records, func(shown int) string {
		switch {
		case len(records) == 0:
			return fmt.Sprintf("no record passed within %v s: pipeline_status shows why, or wait longer", in.Seconds)
		case shown < count && size > maxAnswer:
			return "the answer is full: call again with a smaller count, or with filters"
		}
		return ""
	})
	return struct {
		list
		Dropped uint64 `json:"notShown,omitempty"` // records that passed beyond the rate
	}{answer, dropped}, err
}

// readable returns a record of the inspector in the form of dead letters: raw data as text.
func readable(inspected json.RawMessage) (json.RawMessage, error) {
	r, err := record.ParseInspectJSON(inspected)
	if err != nil {
		return nil, fmt.Errorf("cannot read a record: %w", err)
	}
	return record.AppendReadable(nil, &r)
}

type inspecting func(ctx context.Context, filters []string, f func(client.Message) error, o ...client.Option) error

// inspector returns the function that shows the records of a stage.
func inspector(ctx context.Context, c *client.Client, stage string, before bool) (inspecting, error) {
	at := func(f func(context.Context, string, []string, func(client.Message) error, ...client.Option) error) inspecting {
		return func(ctx context.Context, filters []string, each func(client.Message) error, o ...client.Option) error {
			return f(ctx, stage, filters, each, o...)
		}
	}
	_, _, err := c.Connector(ctx, stage)
	switch {
	case err == nil && before:
		return at(c.InspectIn), nil
	case err == nil:
		return at(c.Inspect), nil
	}
	if _, _, noProcessor := c.Processor(ctx, stage); noProcessor != nil {
		return nil, err
	}
	return func(ctx context.Context, filters []string, each func(client.Message) error, o ...client.Option) error {
		return client.InspectProcessor(ctx, c, stage, !before, filters, each, o...)
	}, nil
}

type deadLetters struct {
	Pipeline string `json:"pipeline,omitempty" jsonschema:"id of the pipeline; default the totals of all"`
	Error    string `json:"error,omitempty" jsonschema:"text that the error contains"`
	Key      string `json:"key,omitempty" jsonschema:"text that the key contains"`
	Stage    string `json:"stage,omitempty" jsonschema:"source-, pipeline- or destination-processor, or destination"`
	Since    string `json:"since,omitempty" jsonschema:"refused at this time or later, in RFC 3339"`
	Until    string `json:"until,omitempty" jsonschema:"refused before this time, in RFC 3339"`
	Before   int64  `json:"before,omitempty" jsonschema:"only dead letters with smaller ids, to continue"`
	Limit    int    `json:"limit,omitempty" jsonschema:"maximum number; default 20"`
}

func listDeadLetters(ctx context.Context, c *client.Client, in deadLetters) (any, error) {
	if in.Pipeline == "" {
		totals, err := c.DeadLetterTotals(ctx)
		if err != nil {
			return nil, err
		}
		return listed(totals, func(shown int) string {
			if shown == len(totals) {
				return ""
			}
			return "further pipelines have dead letters: name one"
		})
	}
	f := spec.DeadLetterFilter{Error: in.Error, Key: in.Key, Stage: spec.DeadLetterStage(in.Stage)}
	var err error
	if f.Since, err = moment("since", in.Since); err != nil {
		return nil, err
	}
	if f.Until, err = moment("until", in.Until); err != nil {
		return nil, err
	}
	page, err := c.DeadLetters(ctx, in.Pipeline, f, in.Before, limited(in.Limit, 20, 100))
	if err != nil {
		return nil, err
	}
	answer, err := listed(page.DeadLetters, func(shown int) string {
		switch {
		case shown < len(page.DeadLetters):
			return fmt.Sprintf("call again with before %d", page.DeadLetters[shown-1].ID)
		case page.Next > 0:
			return fmt.Sprintf("call again with before %d", page.Next)
		}
		return ""
	})
	return struct {
		list
		Totals    spec.DeadLetterTotals    `json:"totals"`
		Replay    *spec.Replay             `json:"replay,omitempty"`
		Elsewhere []spec.MemberDeadLetters `json:"elsewhere,omitempty"`
	}{answer, page.Totals, page.Replay, page.Elsewhere}, err
}

func moment(name, text string) (at time.Time, err error) {
	if text == "" {
		return at, nil
	}
	if at, err = time.Parse(time.RFC3339, text); err != nil {
		return at, fmt.Errorf("%s %q is not a time\nRemedy: write for example 2024-01-31T12:00:00Z", name, text)
	}
	return at, nil
}

type deadLetterID struct {
	Pipeline string `json:"pipeline" jsonschema:"id of the pipeline"`
	ID       int64  `json:"id" jsonschema:"number of the dead letter"`
	part
}

func deadLetter(ctx context.Context, c *client.Client, in deadLetterID) (any, error) {
	l, err := c.DeadLetter(ctx, in.Pipeline, strconv.FormatInt(in.ID, 10))
	if err != nil {
		return nil, err
	}
	return in.excerpt(l)
}

type metric struct {
	Match []string `json:"match,omitempty" jsonschema:"words that a line must contain; default all lines"`
	part
}

func metrics(ctx context.Context, c *client.Client, in metric) (any, error) {
	text, err := c.Metrics(ctx)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		shown := !strings.HasPrefix(line, "#")
		for _, word := range in.Match {
			shown = shown && contains(line, word)
		}
		if shown {
			b.WriteString(line)
		}
	}
	if b.Len() == 0 {
		return fmt.Sprintf("no metric contains %s; without match all are listed", strings.Join(in.Match, " and ")), nil
	}
	return in.excerpt(b.String())
}
