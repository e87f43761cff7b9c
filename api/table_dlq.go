package api

import (
	"encoding/json"
	"time"

	"github.com/conduit-agent/conduit/api/guard"
	"github.com/conduit-agent/conduit/api/rest"
)

var (
	filterParams = []param{
		{Name: "error", Description: "only those whose error contains this text, in any case", Example: "timeout"},
		{Name: "key", Description: "only those whose key contains this text"},
		{Name: "stage", Description: "only those of a stage: source-processor, pipeline-processor, destination-processor or destination"},
		{Name: "since", Description: "only those refused then or later", Example: "2026-01-02T15:04:05Z"},
		{Name: "until", Description: "only those refused before"},
	}
	pageParams = append([]param{
		{Name: "before", Description: "only those with a lower id: next of the page before"},
		{Name: "limit", Description: "most to list; default 100, at most 500"}}, filterParams...)
	dropParams = append([]param{
		{Name: "ids", Description: "which, separated by commas", Example: "17,18"},
		{Name: "all", Description: "all of the pipeline"}}, filterParams...)

	exampleDeadLetter = rest.DeadLetter{ID: 17, PipelineID: "orders", Time: exampleTime, LastTime: exampleTime, Times: 1, SourceID: "orders:shop",
		Stage: rest.StageDestination, RefusedBy: "orders:warehouse", Generation: 2, Digest: "9f86d081", Key: "4711", Error: "value too long for column \"city\"", Bytes: 120,
		Refusals: []rest.Refusal{{Time: exampleTime, By: "orders:warehouse", Generation: 2, Error: "value too long for column \"city\""}}, Record: exampleDeadRecord}
	exampleDeadRecord     = json.RawMessage(`{"position":"MQ==","operation":"create","metadata":{"opencdc.version":"v1"},"key":"NDcxMQ==","payload":{"before":null,"after":{"city":"Bern"}}}`)
	exampleTotals         = rest.DeadLetterTotals{PipelineID: "orders", Count: 1, Bytes: 120}
	exampleDeadLetterPage = rest.DeadLetterPage{DeadLetters: []rest.DeadLetter{exampleDeadLetter}, Totals: exampleTotals}
	exampleReplay         = rest.Replay{PipelineID: "orders", Generation: 3, Started: exampleTime, Ended: exampleTime.Add(time.Second), Read: 1, Settled: 1}
	exampleDeadLetterEdit = rest.DeadLetterEdit{Record: exampleDeadRecord}
)

// deadLetterRoutes returns the operations of dead letters. A client that may only read sees their records, as in
// inspectors.
func (s *Server) deadLetterRoutes(base shared) []route {
	l := &deadLetterHandlers{shared: base, Store: s.DeadLetters, Replays: s.Replays}
	return []route{
		{operation{Method: get, Path: "/v1/dead-letters", ID: "countDeadLetters", Tag: "dead letters", Summary: "Count the dead letters of each pipeline",
			Response: list(exampleTotals), Errors: []int{404}}, l.Totals, guard.Read, nil},
		{operation{Method: get, Path: "/v1/pipelines/{id}/dead-letters", ID: "listDeadLetters", Tag: "dead letters", Summary: "List the records that a pipeline refused, newest first",
			Description: "Whatever its dead-letter queue is, a pipeline keeps its refused records. Records and all errors are in the answer for one.",
			Query:       pageParams, Response: exampleDeadLetterPage, Errors: []int{400, 404}}, l.List, guard.Read, nil},
		{operation{Method: remove, Path: "/v1/pipelines/{id}/dead-letters", ID: "dropDeadLetters", Tag: "dead letters", Summary: "Drop dead letters",
			Description: "Which ones is said by ids, by a filter or by all.",
			Query:       dropParams, Response: rest.DeadLettersDropped{Dropped: 2}, Errors: []int{400, 404}}, l.DeleteSome, guard.Admin, nil},
		{operation{Method: get, Path: "/v1/pipelines/{id}/dead-letters/{letter}", ID: "getDeadLetter", Tag: "dead letters", Summary: "Get a dead letter with its record",
			Response: exampleDeadLetter, Errors: []int{404}}, l.Get, guard.Read, nil},
		{operation{Method: put, Path: "/v1/pipelines/{id}/dead-letters/{letter}", ID: "editDeadLetter", Tag: "dead letters", Summary: "Replace the record of a dead letter",
			Request: exampleDeadLetterEdit, Response: exampleDeadLetter, Errors: []int{404}}, l.Update, guard.Admin, nil},
		{operation{Method: remove, Path: "/v1/pipelines/{id}/dead-letters/{letter}", ID: "dropDeadLetter", Tag: "dead letters", Summary: "Drop a dead letter",
			Response: rest.DeadLettersDropped{Dropped: 1}, Errors: []int{404}}, l.Delete, guard.Admin, nil},
		{operation{Method: post, Path: "/v1/pipelines/{id}/dead-letter-replay", ID: "replayDeadLetters", Tag: "dead letters", Summary: "Replay dead letters",
			Description: "Which ones is said by ids, a filter or all. In the order in which they were refused, they pass the present version of the pipeline, from the processor or to the destination that refused them; " +
				"connectors and processors are started for it. A dead letter is gone when its record is settled; one that is refused again comes back. The answer does not wait for the end.",
			Headers: postHeaders, Request: rest.ReplayRequest{IDs: []int64{17}}, Response: exampleReplay, Errors: []int{404, 409}}, l.Replay, guard.Admin, nil},
		{operation{Method: get, Path: "/v1/pipelines/{id}/dead-letter-replay", ID: "getReplay", Tag: "dead letters", Summary: "Get how far the replay is that runs, or ran last",
			Description: "In a cluster any member knows, whichever runs it.",
			Response:    exampleReplay, Errors: []int{404}}, l.ReplayStatus, guard.Read, nil},
		{operation{Method: remove, Path: "/v1/pipelines/{id}/dead-letter-replay", ID: "cancelReplay", Tag: "dead letters", Summary: "End a replay once what is outstanding is settled",
			Description: "In a cluster any member can be asked, whichever runs it; it waits up to six seconds for that one to know. The answer does not wait for the end; it may be asked again.",
			Response:    exampleReplay, Errors: []int{404}}, l.CancelReplay, guard.Admin, nil},
	}
}
