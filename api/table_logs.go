package api

import (
	"github.com/conduit-agent/conduit/api/guard"
	"github.com/conduit-agent/conduit/api/rest"
)

var exampleLogLine = rest.LogLine{ID: 12, At: exampleTime, Level: "warn", Message: "pipeline failed, trying again",
	Fields: map[string]string{"component": "reconcile", "pipeline_id": "orders", "err": "cannot open source orders:shop: connection refused"}}

// logRoutes returns the operations of the log.
func (s *Server) logRoutes(base shared) []route {
	l := &logHandlers{shared: base, Lines: s.Logs}
	return []route{
		{operation{Method: get, Path: "/v1/pipelines/{id}/logs", ID: "listLogs", Tag: "pipelines", Summary: "List the last lines that the agent logged of a pipeline, oldest first",
			Description: "Those of its connectors, too. The last 200 of the pipeline and of each connector are kept in memory until the agent ends.",
			Query: []param{{Name: "after", Description: "only lines after the one with this id"}, {Name: "limit", Description: "most lines, the newest; default 100, at most 1000"},
				{Name: "wait", Description: "when there is none: how long to wait for one: 30, 2m; default 0", Example: "0"}},
			Response: list(exampleLogLine), Errors: []int{400, 404}}, l.List, guard.Read, nil},
	}
}
