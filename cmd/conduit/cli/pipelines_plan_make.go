package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/planner"
	"github.com/conduit-agent/conduit/agent/runner"
	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/cmd/conduit/terminal"
	"github.com/conduit-agent/conduit/reconcile/watch"
	"github.com/conduit-agent/conduit/spec"
)

// planMaker gets a plan, from the agent or from the store.
type planMaker struct {
	*Program
	config config.Config
	at     *AgentFlags
	json   bool

	named map[string]string // the path of a file that was read here, by its name in the plan
	dir   string            // directory of all other names, "" when it is unknown
	below []string          // pipeline files in subdirectories, which are not read
	live  bool              // the files belong to the agent, which applies them when they are saved
}

func (m *planMaker) make(ctx context.Context, paths []string) (*spec.Plan, error) {
	request, err := m.read(ctx, paths)
	if err != nil {
		return nil, err
	}
	plan, err := m.ask(ctx, request, paths)
	if err == nil && plan == nil {
		m.dir = m.config.Pipelines.Path
		plan, err = m.fromStore(ctx, request)
	}
	if err == nil {
		m.place(plan)
	}
	return plan, err
}

// place changes the file names in the plan to paths from the current directory, if they are known.
func (m *planMaker) place(plan *spec.Plan) {
	path := func(name *string) {
		switch at, ok := m.named[*name]; {
		case ok:
			*name = at
		case *name != "" && m.dir != "":
			*name = filepath.Join(m.dir, *name)
		}
	}
	for i := range plan.Pipelines {
		path(&plan.Pipelines[i].File)
	}
	for i := range plan.Problems {
		path(&plan.Problems[i].File)
	}
	for i := range plan.Held {
		path(&plan.Held[i])
	}
}

// read reads the files that the user names.
func (m *planMaker) read(ctx context.Context, paths []string) (request spec.PlanRequest, err error) {
	for _, path := range paths {
		directory, err := directoryAt(m.config, path)
		if err != nil {
			return request, err
		}
		request.Replace = directory
		if request.Replace && len(paths) > 1 {
			return request, Invalidf("cannot plan for %s and more: name files, or one directory", path)
		}
		if directory {
			m.below = filesBelow(path, watch.IsPipelineFile, pipelinesField)
		} else if _, err := readFile(path); err != nil {
			return request, err
		}
		files, err := planner.Files(ctx, path)
		if err != nil {
			return request, err
		}
		request.Files = append(request.Files, files...)
		for _, f := range files {
			m.named[f.Path] = path
			if directory {
				m.named[f.Path] = filepath.Join(path, f.Path)
			}
		}
	}
	return request, nil
}

// ask requests the plan from the agent. Without paths it is the plan of the current files. It returns nil when the
// store has to be read instead.
func (m *planMaker) ask(ctx context.Context, request spec.PlanRequest, paths []string) (*spec.Plan, error) {
	elsewhere := !m.config.API.Enabled
	for _, key := range []string{"db.sqlite.path", "pipelines.path", "connectors.path", "processors.path"} {
		_, given := m.at.Given[key]
		elsewhere = elsewhere || given
	}
	if m.at.Address == "" && elsewhere {
		return nil, nil
	}
	r, err := m.Dial(m.config, m.at.Address)
	if err != nil {
		return nil, err
	}
	var plan spec.Plan
	if len(paths) == 0 {
		plan, err = r.Plan(ctx)
	} else {
		plan, err = r.PlanFiles(ctx, request)
	}
	if err == nil {
		m.follow(ctx, r, paths)
	}
	if err == nil || m.at.Address != "" || !unanswered(err) {
		return &plan, r.Explain(err)
	}
	if !m.json {
		fmt.Fprintf(m.Stderr, "conduit: the agent at %s did not respond (%v), so the store is read; references are "+
			"not resolved\n", r.At(), brief(err))
	}
	return nil, nil
}

// follow records the directory of the agent's files, and warns when files in this directory are not used.
func (m *planMaker) follow(ctx context.Context, r *Remote, paths []string) {
	follows := r.FollowedDirectory(ctx)
	if follows != "" {
		m.dir = RelativeToHere(follows)
	}
	m.live = !slices.ContainsFunc(paths, func(path string) bool { return !within(follows, path) })
	if len(paths) == 0 && !m.json && FollowsAnother(follows, m.config.Pipelines.Path) {
		here := terminal.Line(m.config.Pipelines.Path)
		fmt.Fprintf(m.Stderr, "conduit: the agent at %s watches %s, not %s; for the files here: conduit pipelines "+
			"plan %s\n",
			r.At(), terminal.Line(follows), here, here)
	}
}

// within reports whether path is the directory dir, under any name, or in it.
func within(dir, path string) bool {
	there, err := os.Stat(dir)
	if dir == "" || err != nil {
		return false
	}
	for path, err = filepath.Abs(path); err == nil; path = filepath.Dir(path) {
		if info, err := os.Stat(path); err == nil && os.SameFile(info, there) {
			return true
		}
		if path == filepath.Dir(path) {
			break
		}
	}
	return false
}

// unanswered reports whether an error is not the answer of an agent, or says that the request is too large for the
// agent.
func unanswered(err error) bool {
	reason := client.Reason(err)
	return reason == "" || reason == rest.ReasonTooLarge
}

// brief removes the request and its URL from err.
func brief(err error) error {
	var unreachable *url.Error
	if errors.As(err, &unreachable) {
		return unreachable.Err
	}
	return err
}

func (m *planMaker) fromStore(ctx context.Context, request spec.PlanRequest) (*spec.Plan, error) {
	catalog := m.Catalog(m.config, slog.New(slog.DiscardHandler))
	var isolated func(to *spec.PlannedPipeline, before, after *spec.Pipeline, cleanup string)
	if isolate := m.Parts.Isolate; isolate != nil {
		isolated = isolate(runner.IsolationSetup{Store: m.config.DB.SQLite.Path}).Plan
	}
	plan, err := planner.Offline(ctx, m.config, m.Parser(), request, func(p *spec.Pipeline) []spec.Problem {
		return catalog.Check(ctx, p)
	}, func(p *spec.Pipeline) map[string]string { return catalog.RawLane(ctx, p) },
		func(p *spec.Pipeline) map[string][]string { return catalog.Notes(ctx, p) }, isolated)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, Invalidf("%v", err)
	}
	return plan, err
}
