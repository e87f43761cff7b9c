package api

import (
	"net/http"
	"slices"

	"github.com/conduit-agent/conduit/api/guard"
	"github.com/conduit-agent/conduit/api/rest"
)

const (
	get    = http.MethodGet
	post   = http.MethodPost
	put    = http.MethodPut
	remove = http.MethodDelete
)

var (
	ifMatch = []param{{Name: "If-Match",
		Description: "ETag of the resource to change; the request fails with 412 if it has changed"}}
	postHeaders = []param{{Name: "Idempotency-Key", Description: "makes the request idempotent for 24 hours"}}
	actHeaders  = []param{ifMatch[0], postHeaders[0]}

	generation = []param{{Name: rest.HeaderGeneration,
		Description: "resulting generation of the pipeline; for several pipelines one each, in order",
		Example:     "4"}}

	nameParam = param{Name: "name", Description: "regular expression for whole names"}
	waitParam = param{Name: "wait", Description: "maximum time to wait for completion: 0, 30, 2m; default 25s",
		Example: "0"}
	liveParam = param{Name: "live", Description: "change a running pipeline without stopping it"}
	waits     = []param{waitParam}
	live      = []param{liveParam}
)

// routes returns all operations of the API, in the order of the document.
func (s *Server) routes(base shared) []route {
	return slices.Concat(s.pipelineRoutes(base), s.stateRoutes(base), s.connectorRoutes(base), s.positionRoutes(base),
		s.logRoutes(base), s.processorRoutes(base), s.deadLetterRoutes(base), s.pluginRoutes(base), s.agentRoutes(base),
		s.clusterRoutes())
}

// stateRoutes returns the operations on whole pipelines: their status and their history.
func (s *Server) stateRoutes(base shared) []route {
	status := &statusHandlers{shared: base, PluginChanges: s.PluginChanges}
	trends := &trendHandlers{shared: base, Trend: s.Trend}
	history := &historyHandlers{shared: base, WriteFile: s.WriteFile}
	owners := &ownerHandlers{shared: base}
	transfer := &transferHandlers{shared: base}
	documents := &documentHandlers{shared: base}
	return []route{
		{operation{Method: get, Path: "/v1/pipelines/{id}/status", ID: "getPipelineStatus", Tag: "pipelines",
			Summary:  "Get the desired and observed state of a pipeline",
			Response: exampleStatus, Errors: []int{404}}, status.Get, guard.Read, nil},
		{operation{Method: get, Path: "/v1/pipelines/{id}/trend", ID: "getPipelineTrend", Tag: "pipelines",
			Summary: "Get the trend of a pipeline over the last 15 minutes, hour or day",
			Description: "The agent saves these values every 10 minutes, unless no record passes, and when it stops: " +
				"after a power cut or a kill, up to 10 minutes and the time without records are missing. They are " +
				"rounded by up to 0.2 %. In a cluster, each member returns only its own measurements.",
			Query:    []param{{Name: "last", Description: "15m (the default), 1h or 24h", Example: "15m"}},
			Response: exampleTrend, Errors: []int{400, 404}}, trends.Get, guard.Read, nil},
		{operation{Method: get, Path: "/v1/pipelines/{id}/history", ID: "getPipelineHistory", Tag: "pipelines",
			Summary:  "List the revisions of a pipeline, oldest first",
			Response: list(exampleRevision), Errors: []int{404}}, history.List, guard.Read, nil},
		{operation{Method: remove, Path: "/v1/pipelines/{id}/history", ID: "purgePipelineHistory", Tag: "pipelines",
			Summary: "Delete the history, events and dead letters of a deleted pipeline",
			Description: "Otherwise they are deleted when they exceed db.history.max-age, max-pipelines or " +
				"max-bytes. The data is erased from the files of the store.",
			Response: empty, Errors: []int{400, 404}}, history.Purge, guard.Admin, nil},
		{operation{Method: get, Path: "/v1/pipelines/{id}/diff", ID: "getPipelineDiff", Tag: "pipelines",
			Summary: "Get the difference between two generations of a pipeline",
			Description: "By default, the latest generation and the one before it. Secrets " +
				"are shown as ***.",
			Query: []param{{Name: "from", Description: "generation, or the word running"},
				{Name: "to", Description: "generation, or the word running; default the latest"}},
			Response: exampleDiff, Errors: []int{400, 404}}, history.Diff, guard.Read, nil},
		{operation{Method: post, Path: "/v1/pipelines/{id}/rollback", ID: "rollbackPipeline", Tag: "pipelines",
			Summary: "Return a pipeline to an earlier revision",
			Description: "A running pipeline keeps running, and a stopped one stays stopped. Set " +
				"\"file\": true to write the revision of a file's pipeline into the file, which keeps its other " +
				"pipelines and comments.",
			Query: live, Headers: actHeaders, Request: exampleRollback, Answer: generation,
			Response: examplePipeline, Errors: []int{400, 404, 409, 412}}, history.Rollback, guard.Admin, nil},
		{operation{Method: post, Path: "/v1/pipelines/{id}/adopt", ID: "adoptPipeline", Tag: "pipelines",
			Summary: "Transfer a pipeline to the file that declares it, or to the API",
			Headers: actHeaders, Request: exampleAdopt, Optional: true, Answer: generation, Response: examplePipeline,
			Errors: []int{400, 404, 409, 412}}, owners.Adopt, guard.Admin, nil},
		{operation{Method: post, Path: "/v1/pipelines/{id}/export", ID: "exportPipeline", Tag: "pipelines",
			Summary:     "Get a pipeline as a pipeline file",
			Description: "The current declaration or a revision, also of a deleted pipeline. Secrets are shown as ***.",
			Query:       []param{{Name: "revision", Description: "number of a revision of the history"}},
			Response:    exampleFile, MediaType: mediaYAML, Errors: []int{400, 404}}, transfer.Export, guard.Read, nil},
		{operation{Method: post, Path: "/v1/pipelines/import", ID: "importPipelines", Tag: "pipelines",
			Summary: "Declare the pipelines of a pipeline file, all or none",
			Description: "The body is a pipeline file in JSON, or in YAML with the media type application/yaml. " +
				"Pipelines that exist are replaced.",
			Query: live, Headers: postHeaders, Request: exampleImport, Answer: generation,
			Response: list(examplePipeline), Errors: []int{400, 409}}, transfer.Import, guard.Admin,
			[]string{mediaYAML}},
		{operation{Method: post, Path: "/v1/pipelines/plan", ID: "planPipeline", Tag: "pipelines",
			Summary: "Get the changes that applying a document would make",
			Description: "The document is the whole pipeline: anything missing would be deleted. Nothing is changed, " +
				"and values of settings are never shown. The request fails if applying the document would fail.",
			Request: exampleDocumentPlan, Response: exampleDocumentDiff, Errors: []int{400, 404, 409}},
			documents.Plan, guard.Admin, nil},
		{operation{Method: post, Path: "/v1/pipelines/apply", ID: "applyPipeline", Tag: "pipelines",
			Summary: "Apply a planned document to a pipeline",
			Description: "Fails with 412 unless the hash is that of the current plan, so that only the reviewed " +
				"changes are made. The pipeline is created if it does not exist. Returns when the change is stored; " +
				"a running pipeline applies it like a change to the file.",
			Headers: postHeaders, Request: exampleDocumentApply, Answer: generation, Response: exampleDocumentDiff,
			Errors: []int{400, 404, 409, 412}}, documents.Apply, guard.Admin, nil},
	}
}

// agentRoutes returns the operations of the agent.
func (s *Server) agentRoutes(base shared) []route {
	status := &statusHandlers{shared: base, PluginChanges: s.PluginChanges}
	files := &fileHandlers{shared: base, Directory: s.Directory, Reloaded: s.Reload, Planned: s.Plan}
	dryRuns := &dryRunHandlers{Do: s.DryRun}
	events := &eventHandlers{shared: base}
	health := &healthHandlers{shared: base, Fault: s.Ready, Directory: s.Directory, Version: s.Version,
		Memory: s.Insight.Memory}
	pages := &pageHandlers{shared: base, Insight: s.Insight, Status: status, Files: files}
	return []route{
		{operation{Method: get, Path: "/v1/status", ID: "listStatus", Tag: "agent",
			Summary:     "List the desired and observed state of all pipelines",
			Description: "Withdrawn pipelines are included until they have stopped. Running pipelines have rates.",
			Response:    list(exampleStatus)}, status.List, guard.Read, nil},
		{operation{Method: get, Path: "/v1/files", ID: "listFiles", Tag: "agent",
			Summary:  "List the pipeline files and their problems",
			Response: list(exampleFileState)}, files.List, guard.Read, nil},
		{operation{Method: get, Path: "/v1/watch", ID: "watch", Tag: "agent",
			Summary: "Stream all data of the web UI",
			Description: "Server-sent messages: session, statuses, files, events, series and, each second, rates. " +
				"The first messages contain everything, later ones changes. It ends after the first unless the " +
				"client accepts text/event-stream.",
			Query: []param{{Name: "stages",
				Description: "id of a pipeline for which to add rates of each connector and processor",
				Example:     "orders"}},
			MediaType: "text/event-stream", Response: exampleWatch, Errors: []int{429}}, pages.Watch, guard.Read,
			nil},
		{operation{Method: get, Path: "/v1/agent", ID: "getAgent", Tag: "agent",
			Summary:     "Get information about the agent",
			Description: "The process, its store, and the effective settings with their sources.",
			Response:    exampleAgent, Errors: []int{404}}, pages.Agent, guard.Read, nil},
		{operation{Method: get, Path: "/v1/files/content", ID: "getFileContent", Tag: "agent",
			Summary:     "Get the content of a pipeline file",
			Description: "Secrets are shown as ***.",
			Query: []param{{Name: "path", Description: "path of the file, relative to pipelines.path",
				Example: "orders.yaml"}},
			Response: exampleFileContent, Errors: []int{404, 503}}, pages.Content, guard.Admin, nil},
		{operation{Method: post, Path: "/v1/editor", ID: "editFile", Tag: "agent",
			Summary: "Get help with writing a pipeline file",
			Description: "The problems of the file, as conduit pipelines validate prints them, and completions at " +
				"the cursor. Nothing is stored.",
			Request: exampleEditorRequest, Response: exampleEditorAnswer, Errors: []int{400, 413}}, pages.Edit,
			guard.Admin, nil},
		{operation{Method: post, Path: "/v1/files/reload", ID: "reloadFiles", Tag: "agent",
			Summary: "Read the pipeline files now",
			Description: "Files are also read when they change. Returns when desired state matches them. " +
				"With prune, the absence of all files withdraws their pipelines.",
			Request: exampleReload, Optional: true, Response: list(exampleFileState), Errors: []int{400, 404, 503}},
			files.Reload, guard.Admin, nil},
		{operation{Method: get, Path: "/v1/plan", ID: "getPlan", Tag: "agent",
			Summary: "Get the changes that the pipeline files would make",
			Description: "Errors of files, and reasons that would keep their pipelines from running, are " +
				"problems. Values of settings are never shown.",
			Response: examplePlan, Errors: []int{404, 503}}, files.Plan, guard.Read, nil},
		{operation{Method: post, Path: "/v1/plan", ID: "planFiles", Tag: "agent",
			Summary: "Get the changes that saving pipeline files would make",
			Description: "Nothing is saved. The plan covers the pipelines that the files declare, or declared " +
				"before; with replace, all pipelines.",
			Request: examplePlanRequest, Response: examplePlan, Errors: []int{400, 404, 413, 503}},
			files.PlanChanges, guard.Admin, nil},
		{operation{Method: post, Path: "/v1/dry-run", ID: "dryRun", Tag: "agent",
			Summary: "Run records through the processors of a pipeline",
			Description: "No connector is opened, nothing is saved, and time is virtual. Processors that call " +
				"external services do call them.",
			Request: exampleDryRunRequest, Response: exampleDryRun, Errors: []int{400, 404, 413}}, dryRuns.Run,
			guard.Admin, nil},
		{operation{Method: get, Path: "/v1/events", ID: "listEvents", Tag: "agent",
			Summary:     "List events, oldest first",
			Description: "With Accept: text/event-stream it streams events as they occur.",
			Query: []param{{Name: "after",
				Description: "only events after the one with this id; default the newest events"},
				{Name: "limit", Description: "maximum number of events to list; default 100; " +
					"fewer if they exceed 2 MiB"}},
			Response: list(exampleEvent), Errors: []int{400}}, events.List, guard.Read, nil},
		{operation{Method: post, Path: "/v1/notifications/test", ID: "testNotifications", Tag: "agent",
			Summary:     "Send a notification to the webhook and the command of the settings",
			Description: "Returns the result of each. Failed notifications are not retried.",
			Headers:     postHeaders, Response: exampleNotificationResults, Errors: []int{400}}, s.testNotifications,
			guard.Admin, nil},
		{operation{Method: get, Path: "/info", ID: "getInfo", Tag: "agent", Summary: "Get the version of the agent",
			Response: exampleInfo}, health.Info, guard.Read, nil},
		{operation{Method: get, Path: "/healthz", ID: "getHealth", Tag: "agent",
			Summary:  "Check that the agent responds; needs no token",
			Query:    []param{{Name: "service", Description: "name of a service; empty: the agent"}},
			Response: exampleHealth, Errors: []int{404}}, health.Live, guard.None, nil},
		{operation{Method: get, Path: "/readyz", ID: "getReadiness", Tag: "agent",
			Summary:  "Check that the agent is ready; needs no token",
			Response: exampleReadiness}, health.Ready, guard.None, nil},
		{operation{Method: get, Path: "/metrics", ID: "getMetrics", Tag: "agent",
			Summary:  "Get metrics in the text format of Prometheus",
			Response: exampleMetrics, MediaType: "text/plain", Errors: []int{404}}, s.metrics, guard.Read, nil},
	}
}

func list[T any](one T) []T { return []T{one} }
