package mcp

import (
	"context"
	"fmt"
	"slices"

	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/spec"
)

type events struct {
	Pipeline string `json:"pipeline,omitempty" jsonschema:"id of a pipeline; default all"`
	After    *int64 `json:"after,omitempty" jsonschema:"only events after the one with this id; default the newest"`
	Limit    int    `json:"limit,omitempty" jsonschema:"maximum number; default 50"`
}

// eventsPage is the number of events in an answer of the API.
const eventsPage = 1000

func listEvents(ctx context.Context, c *client.Client, in events) (any, error) {
	after, limit := int64(-1), limited(in.Limit, 50, eventsPage)
	if in.After != nil {
		after = max(*in.After, 0)
	}
	all, err := c.Events(ctx, after, eventsPage)
	if err != nil {
		return nil, err
	}
	last := after
	if n := len(all); n > 0 {
		last = all[n-1].ID
	}
	complete := len(all) < eventsPage // an answer can be shorter, as its size is limited, too
	all = slices.DeleteFunc(all, func(e spec.Event) bool { return in.Pipeline != "" && e.Pipeline != in.Pipeline })
	if in.After == nil { // the newest
		return newest(all, limit, func(first spec.Event) string {
			return "older events are not shown: call again with a larger limit, or with after"
		})
	}
	page := all[:min(limit, len(all))]
	return listed(page, func(shown int) string {
		switch {
		case shown < len(all) && shown > 0:
			return fmt.Sprintf("call again with after %d", page[shown-1].ID)
		case !complete:
			return fmt.Sprintf("call again with after %d", last)
		}
		return ""
	})
}

// newest returns the last items that fit, at most limit. older describes how to get the items before the first one.
func newest[T any](items []T, limit int, older func(first T) string) (list, error) {
	items = slices.Clone(items)
	slices.Reverse(items)
	page := items[:min(limit, len(items))]
	l, err := listed(page, func(shown int) string {
		if shown == len(items) {
			return ""
		}
		return older(page[shown-1])
	})
	slices.Reverse(l.Items)
	return l, err
}

type logs struct {
	ID    string `json:"id" jsonschema:"id of the pipeline"`
	Level string `json:"level,omitempty" jsonschema:"only lines of this level: debug, info, warn or error"`
	Match string `json:"match,omitempty" jsonschema:"text that the line contains"`
	After int64  `json:"after,omitempty" jsonschema:"only lines after the one with this id"`
	Limit int    `json:"limit,omitempty" jsonschema:"maximum number; default 50"`
}

// logsPage is the number of lines that the agent keeps of a pipeline and its connectors, or more.
const logsPage = 1000

func pipelineLogs(ctx context.Context, c *client.Client, in logs) (any, error) {
	lines, err := c.Logs(ctx, in.ID, in.After, logsPage, false)
	if err != nil {
		return nil, err
	}
	lines = slices.DeleteFunc(lines, func(l spec.LogLine) bool {
		if in.Level != "" && l.Level != in.Level {
			return true
		}
		text, err := compact(l)
		return err == nil && !contains(string(text), in.Match)
	})
	return newest(lines, limited(in.Limit, 50, logsPage), func(spec.LogLine) string {
		return "older lines are not shown: call again with a larger limit, level or match; the log of the agent has all"
	})
}
