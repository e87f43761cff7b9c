package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/conduit-agent/conduit/api/guard"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/pluginname"
	"github.com/conduit-agent/conduit/spec"
)

// Insight provides information about the agent that pages show in addition to its pipelines.
type Insight struct {
	// Agent describes the process, its store and its settings.
	Agent func(ctx context.Context) (rest.Agent, error)
	// Memory returns the use of the memory for outstanding records.
	Memory func() spec.RecordMemory
	// Check returns the problems with the plugins and settings of a pipeline in the editor. Paths are JSON pointers
	// within the pipeline.
	Check func(ctx context.Context, p *spec.Pipeline) []spec.Problem
	// ReadFile returns the content of a pipeline file.
	ReadFile func(path string) ([]byte, error)
}

// pageHandlers serves the data that pages need in addition to the other resources.
type pageHandlers struct {
	shared
	Insight Insight
	Status  *statusHandlers
	Files   *fileHandlers
	streams atomic.Int64
}

// Watch sends the data of pages as server-sent messages: once, or until the client leaves when it accepts
// text/event-stream.
func (s *pageHandlers) Watch(w http.ResponseWriter, r *http.Request) (any, error) {
	if s.streams.Add(1) > maxStreams {
		s.streams.Add(-1)
		return nil, rest.Errorf(rest.ResourceExhausted, rest.ReasonTooMany, "the limit of %d streams is "+
			"reached", maxStreams)
	}
	defer s.streams.Add(-1)
	guard.Release(r)
	w.Header().Set("Connection", "close") // its slot is released
	ctx, cancel := s.Long(w, r)
	defer cancel()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	out := &streamWriter{w: w, control: http.NewResponseController(w)}
	send := func(name string, message any) error {
		text, err := json.Marshal(message)
		if err != nil {
			return err
		}
		out.write(fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, text))
		out.flush()
		return out.err
	}
	role := "read"
	if s.Guard.RoleOf(r) == guard.Admin {
		role = "admin"
	}
	if send("session", rest.WatchSession{Role: role}) != nil {
		return nil, nil
	}
	source := s.source(r)
	source.Stages = r.URL.Query().Get("stages")
	follow := source.Snapshot
	if strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		follow = source.Follow
	}
	_ = follow(ctx, send) // the client left, or sees the end of the stream
	return nil, nil
}

func (s *pageHandlers) source(r *http.Request) *source {
	return &source{
		Statuses: func(ctx context.Context) ([]rest.PipelineStatus, error) { return s.Status.All(r.WithContext(ctx)) },
		Files: func(ctx context.Context) ([]spec.FileState, error) {
			return s.Files.all(ctx)
		},
		Directory: s.Files.Directory,
		Events:    s.Desired.Events,
		Rates:     s.rates,
		Changed:   s.Changed,
	}
}

func (s *pageHandlers) rates() []spec.PipelineRates {
	if s.Rates == nil {
		return []spec.PipelineRates{}
	}
	return s.Rates()
}

// Agent answers with information about the agent.
func (s *pageHandlers) Agent(_ http.ResponseWriter, r *http.Request) (any, error) {
	if s.Insight.Agent == nil {
		return nil, notFound()
	}
	return s.Insight.Agent(r.Context())
}

// Content answers with the content of a pipeline file on the disk, without its secrets. It reads only files that the
// agent follows.
func (s *pageHandlers) Content(_ http.ResponseWriter, r *http.Request) (any, error) {
	path := r.URL.Query().Get("path")
	files, err := s.Desired.FileStates(r.Context())
	if err != nil {
		return nil, err
	}
	known := slices.ContainsFunc(files, func(f spec.FileState) bool { return f.Path == path })
	if !known || s.Insight.ReadFile == nil {
		return nil, rest.Errorf(rest.NotFound, rest.ReasonNotFound, "pipeline file %.200q not found",
			path).With("configPath", "path")
	}
	content, err := s.Insight.ReadFile(path)
	if err != nil {
		return nil, rest.Errorf(rest.Unavailable, rest.ReasonUnavailable, "cannot read %s: %v", path, err)
	}
	return rest.FileContent{Path: path, Content: spec.RedactText(string(content))}, nil
}

// Edit answers with the problems of a pipeline file in the editor and the completions at the cursor.
func (s *pageHandlers) Edit(w http.ResponseWriter, r *http.Request) (any, error) {
	var body rest.EditorRequest
	if err := readJSON(w, r, &body); err != nil {
		return nil, err
	}
	file := s.Desired.Parser.Export([]byte(body.Content))
	answer := rest.EditorAnswer{Problems: []spec.Problem{}, Completions: []rest.Completion{},
		Documents: []rest.PipelineDocument{}}
	answer.Problems = append(answer.Problems, file.Problems...)
	for i := range file.Pipelines {
		p := &file.Pipelines[i]
		if s.Insight.Check != nil {
			for _, problem := range s.Insight.Check(r.Context(), &p.Pipeline) {
				answer.Problems = append(answer.Problems, p.Locate(problem, body.Path))
			}
		}
		answer.Documents = append(answer.Documents, rest.DocumentOf(&p.Pipeline))
	}
	for i := range answer.Problems {
		answer.Problems[i].File = body.Path
	}
	if body.Line > 0 {
		answer.Completions = append(answer.Completions, complete(body.Content, body.Line, body.Column, s.plugins(),
			s.Desired.Parser.References)...)
	}
	return answer, nil
}

// plugins returns the plugins that a file can use.
func (s *pageHandlers) plugins() []pluginSettings {
	var all []pluginSettings
	for _, p := range s.Desired.Plugins.Plugins() {
		one := pluginSettings{Name: pluginname.Bare(p.Name), Summary: p.Summary}
		if len(p.SourceParams) > 0 {
			one.Source = p.SourceParams
		}
		if len(p.DestinationParams) > 0 {
			one.Destination = p.DestinationParams
		}
		all = append(all, one)
	}
	for _, p := range s.Desired.Plugins.Processors() {
		all = append(all, pluginSettings{Name: pluginname.Bare(p.Name), Summary: p.Summary, Processor: p.Parameters})
	}
	return all
}
