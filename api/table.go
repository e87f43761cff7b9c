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
		Description: "ETag of what is to be changed; refused with 412 if it is another by now"}}
	postHeaders = []param{{Name: "Idempotency-Key", Description: "makes repeating the request harmless for 24 hours"}}
	actHeaders  = []param{ifMatch[0], postHeaders[0]}

	generation = []param{{Name: rest.HeaderGeneration,
		Description: "generation of the pipeline that this led to; of several pipelines one each, in their order",
		Example:     "4"}}

	nameParam = param{Name: "name", Description: "regular expression for whole names"}
	waitParam = param{Name: "wait", Description: "how long to wait until it is done: 0, 30, 2m; default 25s",
		Example: "0"}
	liveParam = param{Name: "live", Description: "change a running pipeline, which goes on with the change"}
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
	status := &statusHandlers{shared: base}
	history := &historyHandlers{shared: base, WriteFile: s.WriteFile}
	owners := &ownerHandlers{shared: base}
	transfer := &transferHandlers{shared: base}
	documents := &documentHandlers{shared: base}
	return []route{
		{operation{Method: get, Path: "/v1/pipelines/{id}/status", ID: "getPipelineStatus", Tag: "pipelines",
			Summary:  "Get what is declared, what runs and what is wrong",
			Response: exampleStatus, Errors: []int{404}}, status.Get, guard.Read, nil},
		{operation{Method: get, Path: "/v1/pipelines/{id}/history", ID: "getPipelineHistory", Tag: "pipelines",
			Summary:  "List the revisions of a pipeline, oldest first",
			Response: list(exampleRevision), Errors: []int{404}}, history.List, guard.Read, nil},
		{operation{Method: remove, Path: "/v1/pipelines/{id}/history", ID: "purgePipelineHistory", Tag: "pipelines",
			Summary: "Forget the history, events and dead letters of a deleted pipeline",
			Description: "Without this they are forgotten when they exceed db.history.max-age, max-pipelines or " +
				"max-bytes. Nothing of them is left in the files of the store.",
			Response: empty, Errors: []int{400, 404}}, history.Purge, guard.Admin, nil},
		{operation{Method: get, Path: "/v1/pipelines/{id}/diff", ID: "getPipelineDiff", Tag: "pipelines",
			Summary: "Get what distinguishes two generations of a pipeline",
			Description: "The latest generation and what was there before it, unless others are asked for. Secrets " +
				"are *** in it.",
			Query: []param{{Name: "from", Description: "generation, or the word running"},
				{Name: "to", Description: "generation, or the word running; default the latest"}},
			Response: exampleDiff, Errors: []int{400, 404}}, history.Diff, guard.Read, nil},
		{operation{Method: post, Path: "/v1/pipelines/{id}/rollback", ID: "rollbackPipeline", Tag: "pipelines",
			Summary: "Declare what a revision declared",
			Description: "The pipeline stays running or stopped as it is. That of a file is written to the file with " +
				"\"file\": true: the other pipelines and the comments of the file stay.",
			Query: live, Headers: actHeaders, Request: exampleRollback, Answer: generation,
			Response: examplePipeline, Errors: []int{400, 404, 409, 412}}, history.Rollback, guard.Admin, nil},
		{operation{Method: post, Path: "/v1/pipelines/{id}/adopt", ID: "adoptPipeline", Tag: "pipelines",
			Summary: "Hand a pipeline over to the file that declares it, or to the API",
			Headers: actHeaders, Request: exampleAdopt, Optional: true, Answer: generation, Response: examplePipeline,
			Errors: []int{400, 404, 409, 412}}, owners.Adopt, guard.Admin, nil},
		{operation{Method: post, Path: "/v1/pipelines/{id}/export", ID: "exportPipeline", Tag: "pipelines",
			Summary: "Get a pipeline as a pipeline file",
			Description: "As it is declared, or as a revision declared it, also after it was deleted. Secrets are " +
				"*** in it.",
			Query:    []param{{Name: "revision", Description: "number of a revision of the history"}},
			Response: exampleFile, MediaType: mediaYAML, Errors: []int{400, 404}}, transfer.Export, guard.Read, nil},
		{operation{Method: post, Path: "/v1/pipelines/import", ID: "importPipelines", Tag: "pipelines",
			Summary: "Declare the pipelines of a pipeline file, all or none",
			Description: "The body is a pipeline file in JSON, or in YAML with the media type application/yaml. " +
				"Pipelines that exist are replaced.",
			Query: live, Headers: postHeaders, Request: exampleImport, Answer: generation,
			Response: list(examplePipeline), Errors: []int{400, 409}}, transfer.Import, guard.Admin,
			[]string{mediaYAML}},
		{operation{Method: post, Path: "/v1/pipelines/plan", ID: "planPipeline", Tag: "pipelines",
			Summary: "Get what making a pipeline as a document says would change",
			Description: "The document is the whole pipeline: what is not in it would be deleted. Nothing is " +
				"changed, and values of settings are never shown. What applying the document would refuse is refused.",
			Request: exampleDocumentPlan, Response: exampleDocumentDiff, Errors: []int{400, 404, 409}},
			documents.Plan, guard.Admin, nil},
		{operation{Method: post, Path: "/v1/pipelines/apply", ID: "applyPipeline", Tag: "pipelines",
			Summary: "Make a pipeline as a document says, as it was planned",
			Description: "Refused with 412 unless the hash is that of the plan, so that nothing changes but what was " +
				"seen. The pipeline is created if there is none. " +
				"Answers when the change is stored; a running pipeline goes on with it, as with a change of its file.",
			Headers: postHeaders, Request: exampleDocumentApply, Answer: generation, Response: exampleDocumentDiff,
			Errors: []int{400, 404, 409, 412}}, documents.Apply, guard.Admin, nil},
	}
}

// agentRoutes returns the operations of the agent.
func (s *Server) agentRoutes(base shared) []route {
	status := &statusHandlers{shared: base}
	files := &fileHandlers{shared: base, Reloaded: s.Reload, Planned: s.Plan}
	dryRuns := &dryRunHandlers{Do: s.DryRun}
	events := &eventHandlers{shared: base}
	health := &healthHandlers{shared: base, Version: s.Version, Memory: s.Insight.Memory}
	pages := &pageHandlers{shared: base, Insight: s.Insight, Status: status, Files: files}
	return []route{
		{operation{Method: get, Path: "/v1/status", ID: "listStatus", Tag: "agent",
			Summary: "Get of every pipeline what is declared, what runs and what is wrong",
			Description: "Pipelines that are declared no more are there until they have stopped. Of those that run " +
				"there are rates, too.",
			Response: list(exampleStatus)}, status.List, guard.Read, nil},
		{operation{Method: get, Path: "/v1/files", ID: "listFiles", Tag: "agent",
			Summary:  "List the pipeline files and what is wrong with them",
			Response: list(exampleFileState)}, files.List, guard.Read, nil},
		{operation{Method: get, Path: "/v1/watch", ID: "watch", Tag: "agent",
			Summary: "Follow everything that the web UI shows",
			Description: "Server-sent messages: session, statuses, files, events, series and, each second, rates. " +
				"Everything comes first, then what changed. It ends after the first unless the client accepts " +
				"text/event-stream.",
			Query: []param{{Name: "stages",
				Description: "id of the pipeline whose rates are given for each connector and processor, too",
				Example:     "orders"}},
			MediaType: "text/event-stream", Response: exampleWatch, Errors: []int{429}}, pages.Watch, guard.Read,
			nil},
		{operation{Method: get, Path: "/v1/agent", ID: "getAgent", Tag: "agent",
			Summary:     "Get what the agent says of itself",
			Description: "The process, its store, and the settings in effect with the place that each comes from.",
			Response:    exampleAgent, Errors: []int{404}}, pages.Agent, guard.Read, nil},
		{operation{Method: get, Path: "/v1/files/content", ID: "getFileContent", Tag: "agent",
			Summary:     "Get a pipeline file as it is on the disk",
			Description: "Secrets are *** in it.",
			Query: []param{{Name: "path", Description: "of the file, relative to pipelines.path",
				Example: "orders.yaml"}},
			Response: exampleFileContent, Errors: []int{404, 503}}, pages.Content, guard.Admin, nil},
		{operation{Method: post, Path: "/v1/editor", ID: "editFile", Tag: "agent",
			Summary: "Get help with writing a pipeline file",
			Description: "What is wrong with the file, as conduit pipelines validate says it, and what may stand at " +
				"the cursor. Nothing is kept.",
			Request: exampleEditorRequest, Response: exampleEditorAnswer, Errors: []int{400, 413}}, pages.Edit,
			guard.Admin, nil},
		{operation{Method: post, Path: "/v1/files/reload", ID: "reloadFiles", Tag: "agent",
			Summary: "Read the pipeline files now",
			Description: "Files are read anyway when they change. Answers when desired state is in line with them. " +
				"With prune, the absence of all files withdraws their pipelines.",
			Request: exampleReload, Optional: true, Response: list(exampleFileState), Errors: []int{400, 404, 503}},
			files.Reload, guard.Admin, nil},
		{operation{Method: get, Path: "/v1/plan", ID: "getPlan", Tag: "agent",
			Summary: "Get what the pipeline files would change",
			Description: "What is wrong with the files, and what would keep their pipelines from running, are " +
				"problems. Values of settings are never shown.",
			Response: examplePlan, Errors: []int{404, 503}}, files.Plan, guard.Read, nil},
		{operation{Method: post, Path: "/v1/plan", ID: "planFiles", Tag: "agent",
			Summary: "Get what pipeline files would change once they are saved",
			Description: "Nothing is saved. The plan is about the pipelines that the files declare, or declared " +
				"before; with replace, about all.",
			Request: examplePlanRequest, Response: examplePlan, Errors: []int{400, 404, 413, 503}},
			files.PlanChanges, guard.Admin, nil},
		{operation{Method: post, Path: "/v1/dry-run", ID: "dryRun", Tag: "agent",
			Summary: "Get what the processors of a pipeline make of records",
			Description: "No connector is opened, nothing is saved, and time is virtual. Processors that call " +
				"services do call them.",
			Request: exampleDryRunRequest, Response: exampleDryRun, Errors: []int{400, 404, 413}}, dryRuns.Run,
			guard.Admin, nil},
		{operation{Method: get, Path: "/v1/events", ID: "listEvents", Tag: "agent",
			Summary:     "List what happened, oldest first",
			Description: "With Accept: text/event-stream it streams what happens.",
			Query: []param{{Name: "after",
				Description: "only events after the one with this id; the newest when left out"},
				{Name: "limit", Description: "most events to list; default 100; fewer when they are more than 2 MiB"}},
			Response: list(exampleEvent), Errors: []int{400}}, events.List, guard.Read, nil},
		{operation{Method: post, Path: "/v1/notifications/test", ID: "testNotifications", Tag: "agent",
			Summary:     "Send a notification to the webhook and the command of the settings",
			Description: "Answers when each has taken it, or has not. Nothing is tried again.",
			Headers:     postHeaders, Response: exampleNotificationResults, Errors: []int{400}}, s.testNotifications,
			guard.Admin, nil},
		{operation{Method: get, Path: "/info", ID: "getInfo", Tag: "agent", Summary: "Get the version of the agent",
			Response: exampleInfo}, health.Info, guard.Read, nil},
		{operation{Method: get, Path: "/healthz", ID: "getHealth", Tag: "agent",
			Summary: "Ask whether the agent answers; needs no token",
			Query:   []param{{Name: "service", Description: "of one service"}}, Response: exampleHealth,
			Errors: []int{404}}, health.Live, guard.None, nil},
		{operation{Method: get, Path: "/readyz", ID: "getReadiness", Tag: "agent",
			Summary:  "Ask whether the agent is ready; needs no token",
			Response: exampleReadiness}, health.Ready, guard.None, nil},
		{operation{Method: get, Path: "/metrics", ID: "getMetrics", Tag: "agent",
			Summary:  "Get metrics in the text format of Prometheus",
			Response: exampleMetrics, MediaType: "text/plain", Errors: []int{404}}, s.metrics, guard.Read, nil},
	}
}

func list[T any](one T) []T { return []T{one} }
