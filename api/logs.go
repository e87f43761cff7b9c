package api

import (
	"net/http"
	"time"

	"github.com/conduit-agent/conduit/api/guard"
	"github.com/conduit-agent/conduit/spec"
)

// Lines provides the last lines of the agent's log.
type Lines interface {
	// Read returns up to limit of the newest lines after the line with the id after, oldest first, about the pipelines
	// and connectors with these ids. Without ids it returns the lines about any pipeline and about none.
	Read(ids []string, after int64, limit int) []spec.LogLine
	// Changed returns a channel that is closed when the next line comes.
	Changed() <-chan struct{}
}

var exampleLogLine = spec.LogLine{ID: 12, At: exampleTime, Level: "warn", Message: "pipeline failed, restarting it",
	Fields: map[string]string{"component": "reconcile", "pipeline_id": "orders",
		"err": "cannot open source orders:shop: connection refused"}}

// logRoutes returns the operations of the log.
func (s *Server) logRoutes(base shared) []route {
	l := &logHandlers{shared: base, Lines: s.Logs}
	query := []param{{Name: "after", Description: "only lines after the one with this id"},
		{Name: "limit", Description: "maximum number of lines, the newest; default 100, at most 1000"},
		{Name: "wait", Description: "time to wait for a line if there is none: 30, 2m; default 0", Example: "0"}}
	return []route{
		{operation{Method: get, Path: "/v1/logs", ID: "listAgentLogs", Tag: "agent",
			Summary: "List the last log lines of the agent and of all pipelines, oldest first",
			Description: "The last 200 lines about no pipeline, and of each pipeline and connector, are kept in memory " +
				"until the agent stops.",
			Query: query, Response: list(exampleLogLine), Errors: []int{400}}, l.All, guard.Read, nil},
		{operation{Method: get, Path: "/v1/pipelines/{id}/logs", ID: "listLogs", Tag: "pipelines",
			Summary: "List the last log lines of a pipeline, oldest first",
			Description: "Includes its connectors. The last 200 lines of the pipeline and of each connector are kept " +
				"in memory until the agent stops.",
			Query: query, Response: list(exampleLogLine), Errors: []int{400, 404}}, l.List, guard.Read, nil},
	}
}

// logHandlers lists lines of the log.
type logHandlers struct {
	shared
	Lines Lines // nil: the log is not available
}

// Limits of the number of lines in an answer, and the time for collecting lines that are logged together.
const (
	defaultLimit = 100
	maxLimit     = 1000
	gather       = 50 * time.Millisecond
)

// List answers with the last lines of a pipeline. With wait, it answers when there are any.
func (s *logHandlers) List(w http.ResponseWriter, r *http.Request) (any, error) {
	if s.Lines == nil {
		return nil, notFound()
	}
	d, err := s.Desired.Pipeline(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return s.read(w, r, owners(&d.Pipeline))
}

// All answers with the last lines about any pipeline and about none, as List does.
func (s *logHandlers) All(w http.ResponseWriter, r *http.Request) (any, error) {
	if s.Lines == nil {
		return nil, notFound()
	}
	return s.read(w, r, nil)
}

func (s *logHandlers) read(w http.ResponseWriter, r *http.Request, ids []string) (any, error) {
	after, err := numberParam(r, "after", 0)
	if err != nil {
		return nil, err
	}
	limit, err := numberParam(r, "limit", defaultLimit)
	if err != nil {
		return nil, err
	}
	wait := time.Duration(0)
	if r.URL.Query().Has("wait") {
		if wait, err = waitTime(r); err != nil {
			return nil, err
		}
	}
	most := int(min(limit, maxLimit))
	lines := s.Lines.Read(ids, after, most)
	if len(lines) > 0 || wait == 0 || most == 0 {
		return lines, nil
	}
	return s.next(w, r, ids, after, most, wait)
}

// next returns the lines after the line with the id after, or none after a timeout.
func (s *logHandlers) next(
	w http.ResponseWriter, r *http.Request, ids []string, after int64, most int, wait time.Duration,
) (any, error) {
	ctx, cancel := s.Long(w, r)
	defer cancel()
	over := time.NewTimer(wait)
	defer over.Stop()
	for {
		changed := s.Lines.Changed()
		lines := s.Lines.Read(ids, after, most)
		if len(lines) > 0 {
			return lines, nil
		}
		select {
		case <-changed:
			select { // other pipelines may log all the time
			case <-time.After(gather):
			case <-ctx.Done():
			}
		case <-over.C:
			return lines, nil
		case <-ctx.Done():
			return lines, nil
		}
	}
}

// owners returns the ids in log lines of a pipeline.
func owners(p *spec.Pipeline) []string {
	ids := []string{p.ID, p.QualifiedID(spec.QueueID)}
	for i := range p.Connectors {
		ids = append(ids, p.QualifiedID(p.Connectors[i].ID))
	}
	return ids
}
