package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

func agentStatus(ctx context.Context, c *client.Client, in part) (any, error) {
	info, err := c.Info(ctx)
	if err != nil {
		return nil, err
	}
	ready, err := c.Ready(ctx)
	if refused := (*client.Error)(nil); err != nil && !errors.As(err, &refused) {
		return nil, err
	}
	files, err := c.Files(ctx)
	if err != nil {
		return nil, err
	}
	number := len(files)
	files = slices.DeleteFunc(files, func(f spec.FileState) bool { return len(f.Problems) == 0 && f.Unseen == "" })
	return in.excerpt(struct {
		Version           string           `json:"version"`
		Readiness         rest.Readiness   `json:"readiness"`
		Files             int              `json:"files"`
		FilesWithProblems []spec.FileState `json:"filesWithProblems"`
	}{info.Version, ready, number, files})
}

// pipelineLine is a pipeline in a list.
type pipelineLine struct {
	ID                string     `json:"id"`
	Phase             spec.Phase `json:"phase"`
	Cause             string     `json:"cause,omitempty"`
	Desired           string     `json:"desired"`
	Owner             string     `json:"owner"`
	Generation        int64      `json:"generation"`
	RunningGeneration int64      `json:"runningGeneration,omitempty"`
	Since             time.Time  `json:"since,omitzero"`
}

type listing struct {
	Match string `json:"match,omitempty" jsonschema:"text that the id contains"`
	Phase string `json:"phase,omitempty" jsonschema:"stopped, starting, running, stopping, recovering or degraded"`
	After string `json:"after,omitempty" jsonschema:"id after which to continue"`
	Limit int    `json:"limit,omitempty" jsonschema:"maximum number; default 100"`
}

func listPipelines(ctx context.Context, c *client.Client, in listing) (any, error) {
	all, err := c.Statuses(ctx)
	if err != nil {
		return nil, err
	}
	var found []pipelineLine
	for i := range all {
		s := &all[i]
		if s.ID <= in.After || !contains(s.ID, in.Match) || in.Phase != "" && string(phaseOf(s)) != in.Phase {
			continue
		}
		found = append(found, pipelineLine{ID: s.ID, Phase: phaseOf(s), Cause: cause(s),
			Desired: string(cmp.Or(s.Override, s.Declared)), Owner: ownerText(&s.Owner), Generation: s.Generation,
			RunningGeneration: s.State.RunningGeneration, Since: s.State.Since})
	}
	return paged(found, limited(in.Limit, 100, 1000), func(last pipelineLine) string {
		return fmt.Sprintf("call again with after %q", last.ID)
	})
}

// paged returns the first items, at most limit. rest describes how to continue after the last one.
func paged[T any](items []T, limit int, rest func(last T) string) (list, error) {
	page := items[:min(limit, len(items))]
	return listed(page, func(shown int) string {
		if shown == len(items) {
			return ""
		}
		return fmt.Sprintf("%d of %d are shown; %s", shown, len(items), rest(page[shown-1]))
	})
}

func phaseOf(s *rest.PipelineStatus) spec.Phase { return cmp.Or(s.State.Phase, spec.PhaseStopped) }

func ownerText(o *spec.Owner) string {
	if o.Kind == spec.OwnerFile {
		return fmt.Sprintf("file %s:%d", o.Path, o.Line)
	}
	return string(o.Kind)
}

// cause returns the reason why a pipeline is not in its desired state, "" if it is.
func cause(s *rest.PipelineStatus) string {
	var causes []string
	add := func(text string) {
		if text != "" && !slices.Contains(causes, text) {
			causes = append(causes, text)
		}
	}
	add(s.State.Error)
	if s.State.Stall != nil {
		add(s.State.Stall.Message)
	}
	if a := s.State.LastAttempt; a != nil && a.Generation == s.Generation {
		add(a.Error)
	}
	for _, p := range s.Problems {
		if p.Severity == spec.SeverityError {
			add(fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Message))
		}
	}
	return strings.Join(causes, "; ")
}

type named struct {
	ID string `json:"id" jsonschema:"id of the pipeline"`
	part
}

func pipelineStatus(ctx context.Context, c *client.Client, in named) (any, error) {
	s, err := c.Status(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if s.State.LastGood != nil { // the whole pipeline, which pipeline_declaration returns
		s.State.LastGood = &spec.LastGood{Generation: s.State.LastGood.Generation}
	}
	if s.Rates != nil {
		rates := *s.Rates
		rates.Series = nil
		s.Rates = &rates
	}
	return in.excerpt(struct {
		Cause  string              `json:"cause,omitempty"`
		Status rest.PipelineStatus `json:"status"`
	}{cause(&s), s})
}

type declaration struct {
	ID       string `json:"id" jsonschema:"id of the pipeline"`
	Revision int64  `json:"revision,omitempty" jsonschema:"number of an earlier revision; default the present one"`
	part
}

func pipelineDeclaration(ctx context.Context, c *client.Client, in declaration) (any, error) {
	export := func() ([]byte, error) { return c.Export(ctx, in.ID) }
	if in.Revision != 0 {
		export = func() ([]byte, error) { return c.ExportRevision(ctx, in.ID, in.Revision) }
	}
	text, err := export()
	if err != nil {
		return nil, err
	}
	return in.excerpt(string(text))
}
