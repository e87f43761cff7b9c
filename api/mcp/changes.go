package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

func pendingChanges(ctx context.Context, c *client.Client, in part) (any, error) {
	planned, err := c.Plan(ctx)
	if err != nil {
		return nil, err
	}
	return in.excerpt(planned)
}

type fileText struct {
	Path    string `json:"path" jsonschema:"name of the file in pipelines.path, such as orders.yaml"`
	Content string `json:"content" jsonschema:"text of the pipeline file in YAML"`
	part
}

func planFile(ctx context.Context, c *client.Client, in fileText) (any, error) {
	planned, err := c.PlanFiles(ctx, spec.PlanRequest{Files: []spec.PlanFile{{Path: in.Path, Content: in.Content}}})
	if err != nil {
		return nil, err
	}
	return in.excerpt(planned)
}

type validated struct {
	Content string `json:"content" jsonschema:"text of the pipeline file in YAML"`
	part
}

func validate(ctx context.Context, c *client.Client, in validated) (any, error) {
	answer, err := client.Edit(ctx, c, rest.EditorRequest{Content: in.Content})
	if err != nil {
		return nil, err
	}
	pipelines := []string{}
	for i := range answer.Documents {
		pipelines = append(pipelines, answer.Documents[i].ID)
	}
	return in.excerpt(struct {
		Valid     []string       `json:"pipelinesWithoutErrors"`
		Deficient []spec.Problem `json:"problems"`
	}{pipelines, answer.Problems})
}

type dryRunning struct {
	Content  string `json:"content" jsonschema:"text of the pipeline file in YAML"`
	Pipeline string `json:"pipeline,omitempty" jsonschema:"id of the pipeline, if the file declares several"`
	Source   string `json:"source,omitempty" jsonschema:"id of the source of the records, if there are several"`
	Records  []any  `json:"records" jsonschema:"records in the form of sample_records; only the payload is required"`
	Start    string `json:"start,omitempty" jsonschema:"virtual time at the start, in RFC 3339; default now"`
	Advance  string `json:"advance,omitempty" jsonschema:"time after the last record, such as 1m, for windows"`
	part
}

func dryRun(ctx context.Context, c *client.Client, in dryRunning) (any, error) {
	request := spec.DryRunRequest{File: in.Content, Pipeline: in.Pipeline, Source: in.Source, Advance: in.Advance}
	if start, err := moment("start", in.Start); err != nil {
		return nil, err
	} else if !start.IsZero() {
		request.Start = new(time.Time)
		*request.Start = start
	}
	for _, r := range in.Records {
		text, err := json.Marshal(r)
		if err != nil {
			return nil, fmt.Errorf("cannot encode a record: %w", err)
		}
		request.Records = append(request.Records, text)
	}
	result, err := c.DryRun(ctx, request)
	if err != nil {
		return nil, err
	}
	return in.excerpt(result)
}

type planning struct {
	Content string `json:"content" jsonschema:"pipeline file in YAML; parts that it lacks are removed; *** keeps a secret"`
	part
}

func plan(ctx context.Context, c *client.Client, in planning) (any, error) {
	doc, err := document(in.Content)
	if err != nil {
		return nil, err
	}
	planned, err := c.PlanDocument(ctx, doc)
	if err != nil {
		return nil, err
	}
	return in.excerpt(planned)
}

type applying struct {
	Content string `json:"content" jsonschema:"the text that was planned"`
	Hash    string `json:"hash" jsonschema:"hash of the plan that the user has seen"`
	part
}

func apply(ctx context.Context, c *client.Client, in applying) (any, error) {
	doc, err := document(in.Content)
	if err != nil {
		return nil, err
	}
	applied, err := c.ApplyDocument(ctx, doc, in.Hash)
	if err != nil {
		return nil, err
	}
	return in.excerpt(applied)
}

// document returns the only pipeline of a text.
func document(content string) (doc rest.PipelineDocument, err error) {
	file := spec.ParseExport([]byte(content))
	var wrong []string
	for _, p := range file.Problems {
		if p.Severity == spec.SeverityError {
			wrong = append(wrong, fmt.Sprintf("%d:%d: %s", p.Line, p.Column, p.Message))
		}
	}
	if len(wrong) > 0 {
		text, _ := cut("the text has errors:\n"+strings.Join(wrong, "\n"), 0)
		return doc, errors.New(text)
	}
	if n := len(file.Pipelines); n != 1 {
		return doc, fmt.Errorf("the text declares %d pipelines\nRemedy: plan and apply each pipeline for itself", n)
	}
	return rest.DocumentOf(&file.Pipelines[0].Pipeline), nil
}
