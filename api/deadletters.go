package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/conduit-agent/conduit/api/guard"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// DeadLetterStore is the dead-letter store.
type DeadLetterStore interface {
	// Totals returns the totals of all dead letters, by pipeline id.
	Totals(ctx context.Context) ([]spec.DeadLetterTotals, error)
	// List returns a page of up to limit dead letters that match the filter, newest first, with ids below before; 0
	// begins with the newest.
	List(ctx context.Context, pipeline string, f spec.DeadLetterFilter, before int64, limit int) (spec.DeadLetterPage,
		error)
	// Get returns a dead letter with its record, spec.ErrNotFound if there is none.
	Get(ctx context.Context, pipeline string, id int64) (spec.DeadLetter, error)
	// Edit replaces the record of a dead letter.
	Edit(ctx context.Context, pipeline string, id int64, r *record.Record) (spec.DeadLetter, error)
	// Drop drops dead letters and returns their number.
	Drop(ctx context.Context, pipeline string, ids []int64) (int64, error)
	// DropAll drops the dead letters that match the filter.
	DropAll(ctx context.Context, pipeline string, f spec.DeadLetterFilter) (int64, error)
}

var (
	filterParams = []param{
		{Name: "error", Description: "only those whose error contains this text, ignoring case", Example: "timeout"},
		{Name: "key", Description: "only those whose key contains this text"},
		{Name: "stage", Description: "only those of a stage: source-processor, pipeline-processor, " +
			"destination-processor or destination"},
		{Name: "since", Description: "only those refused at this time or later", Example: "2026-01-02T15:04:05Z"},
		{Name: "until", Description: "only those refused before this time"},
	}
	pageParams = append([]param{
		{Name: "before", Description: "only those with a lower id: next of the previous page"},
		{Name: "limit", Description: "maximum number to list; default 100, at most 500, or 100 with records"},
		{Name: "records", Description: "whether to add an excerpt of each record"}}, filterParams...)
	dropParams = append([]param{
		{Name: "ids", Description: "ids, separated by commas", Example: "17,18"},
		{Name: "all", Description: "all dead letters of the pipeline"}}, filterParams...)

	exampleDeadLetter = spec.DeadLetter{ID: 17, PipelineID: "orders", Time: exampleTime, LastTime: exampleTime,
		Times: 1, SourceID: "orders:shop",
		Stage: spec.RefusedByDestination, RefusedBy: "orders:warehouse", Generation: 2, Digest: "9f86d081", Key: "4711",
		Error: "value too long for column \"city\"", Bytes: 120,
		Refusals: []spec.Refusal{{Time: exampleTime, By: "orders:warehouse", Generation: 2,
			Error: "value too long for column \"city\""}}, Record: exampleDeadRecord}
	exampleDeadRecord = json.RawMessage(
		`{"position":"MQ==","operation":"create","metadata":{"opencdc.version":"v1"},"key":"NDcxMQ==",` +
			`"payload":{"before":null,"after":{"city":"Bern"}}}`)
	exampleTotals         = spec.DeadLetterTotals{PipelineID: "orders", Count: 1, Bytes: 120}
	exampleDeadLetterPage = spec.DeadLetterPage{DeadLetters: []spec.DeadLetter{exampleDeadLetter},
		Totals: exampleTotals}
	exampleReplay = spec.Replay{PipelineID: "orders", Generation: 3, Started: exampleTime,
		Ended: exampleTime.Add(time.Second), Read: 1, Settled: 1}
	exampleDeadLetterEdit = rest.DeadLetterEdit{Record: exampleDeadRecord}
)

// deadLetterRoutes returns the operations of dead letters. A client that may only read sees their records, as in
// inspectors.
func (s *Server) deadLetterRoutes(base shared) []route {
	l := &deadLetterHandlers{shared: base, Store: s.DeadLetters, Replays: s.Replays}
	return []route{
		{operation{Method: get, Path: "/v1/dead-letters", ID: "countDeadLetters", Tag: "dead letters",
			Summary:  "Count the dead letters of each pipeline",
			Response: list(exampleTotals), Errors: []int{404}}, l.Totals, guard.Read, nil},
		{operation{Method: get, Path: "/v1/pipelines/{id}/dead-letters", ID: "listDeadLetters", Tag: "dead letters",
			Summary: "List the records that a pipeline refused, newest first",
			Description: "A pipeline keeps refused records, whatever its dead-letter queue is. Records and all " +
				"errors are in the response for a single dead letter.",
			Query: pageParams, Response: exampleDeadLetterPage, Errors: []int{400, 404}}, l.List, guard.Read,
			nil},
		{operation{Method: remove, Path: "/v1/pipelines/{id}/dead-letters", ID: "dropDeadLetters", Tag: "dead letters",
			Summary:     "Drop dead letters",
			Description: "Select them by ids, by a filter or by all.",
			Query:       dropParams, Response: rest.DeadLettersDropped{Dropped: 2}, Errors: []int{400, 404}},
			l.DeleteSome, guard.Admin, nil},
		{operation{Method: get, Path: "/v1/pipelines/{id}/dead-letters/{letter}", ID: "getDeadLetter",
			Tag: "dead letters", Summary: "Get a dead letter with its record",
			Response: exampleDeadLetter, Errors: []int{404}}, l.Get, guard.Read, nil},
		{operation{Method: put, Path: "/v1/pipelines/{id}/dead-letters/{letter}", ID: "editDeadLetter",
			Tag: "dead letters", Summary: "Replace the record of a dead letter",
			Request: exampleDeadLetterEdit, Response: exampleDeadLetter, Errors: []int{404}}, l.Update, guard.Admin,
			nil},
		{operation{Method: remove, Path: "/v1/pipelines/{id}/dead-letters/{letter}", ID: "dropDeadLetter",
			Tag: "dead letters", Summary: "Drop a dead letter",
			Response: rest.DeadLettersDropped{Dropped: 1}, Errors: []int{404}}, l.Delete, guard.Admin, nil},
		{operation{Method: post, Path: "/v1/pipelines/{id}/dead-letter-replay", ID: "replayDeadLetters",
			Tag: "dead letters", Summary: "Replay dead letters",
			Description: "Select them by ids, a filter or all. In the order of refusal, they pass the present " +
				"version of the pipeline, from the processor or to the destination that refused them, or from the " +
				"first processor; connectors and processors are started for it. A dead letter is gone when its " +
				"record is settled; one that is refused again stays. The response does not wait for the end.",
			Headers: postHeaders, Request: spec.ReplayRequest{IDs: []int64{17}, From: spec.ReplayFromFirst},
			Response: exampleReplay, Errors: []int{404, 409}}, l.Replay, guard.Admin, nil},
		{operation{Method: get, Path: "/v1/pipelines/{id}/dead-letter-replay", ID: "getReplay", Tag: "dead letters",
			Summary:     "Get the progress of the current or last replay",
			Description: "In a cluster any member can be queried.",
			Response:    exampleReplay, Errors: []int{404}}, l.ReplayStatus, guard.Read, nil},
		{operation{Method: remove, Path: "/v1/pipelines/{id}/dead-letter-replay", ID: "cancelReplay",
			Tag: "dead letters", Summary: "End a replay after in-flight records are settled",
			Description: "In a cluster any member can be called; it waits up to six seconds for " +
				"the member that runs the replay. The response does not wait for the end; the request may be repeated.",
			Response: exampleReplay, Errors: []int{404}}, l.CancelReplay, guard.Admin, nil},
	}
}

// deadLetterHandlers lists and changes dead letters. The dead letters of a deleted pipeline stay until they are dropped
// or expire.
type deadLetterHandlers struct {
	shared
	Store   DeadLetterStore
	Replays Replays
}

// Default and maximum size of a page of dead letters.
const (
	defaultPage = 100
	maxPage     = 500
)

// Totals answers with the dead-letter totals of each pipeline.
func (s *deadLetterHandlers) Totals(_ http.ResponseWriter, r *http.Request) (any, error) {
	if s.Store == nil {
		return nil, notFound()
	}
	return answer(s.Store.Totals(r.Context()))
}

// List answers with a page of dead letters.
func (s *deadLetterHandlers) List(_ http.ResponseWriter, r *http.Request) (any, error) {
	if s.Store == nil {
		return nil, notFound()
	}
	f, err := filter(r)
	if err != nil {
		return nil, err
	}
	before, err := numberParam(r, "before", 0)
	if err != nil {
		return nil, err
	}
	limit, err := numberParam(r, "limit", defaultPage)
	if err != nil {
		return nil, err
	}
	most := int64(maxPage)
	records, err := flagParam(r, "records")
	if err != nil {
		return nil, err
	}
	if records {
		most = maxExcerpts
	}
	page, err := s.Store.List(r.Context(), r.PathValue("id"), f, before, int(max(1, min(limit, most))))
	if err == nil && records {
		s.excerpts(r.Context(), r.PathValue("id"), page.DeadLetters)
	}
	page.Elsewhere = s.Placements.DeadLettersElsewhere(r.PathValue("id"))
	if s.Replays != nil {
		if status, ok := s.Replays.Status(r.Context(), r.PathValue("id")); ok && status.Running {
			page.Replay = &status
		}
	}
	if err == nil && page.Totals.Count == 0 && page.Totals.Dropped == 0 { // the pipeline may not exist
		_, err := s.Desired.Pipeline(r.Context(), r.PathValue("id"))
		return page, err
	}
	return answer(page, err)
}

// Get answers with a dead letter.
func (s *deadLetterHandlers) Get(_ http.ResponseWriter, r *http.Request) (any, error) {
	id, err := s.id(r)
	if err != nil {
		return nil, err
	}
	l, err := s.Store.Get(r.Context(), r.PathValue("id"), id)
	return s.readable(r, l, err)
}

// Update replaces the record of a dead letter.
func (s *deadLetterHandlers) Update(w http.ResponseWriter, r *http.Request) (any, error) {
	id, err := s.id(r)
	if err != nil {
		return nil, err
	}
	var body rest.DeadLetterEdit
	if err := readJSON(w, r, &body); err != nil {
		return nil, err
	}
	edited, err := record.ParseReadable(body.Record)
	if err != nil {
		return nil, fieldError(spec.CodeInvalid, "record", err.Error())
	}
	if len(edited.Position) == 0 {
		return nil, fieldError(spec.CodeRequired, "record.position", "record.position is missing; send the original "+
			"value")
	}
	l, err := s.Store.Edit(r.Context(), r.PathValue("id"), id, &edited)
	return s.readable(r, l, err)
}

// readable answers with a dead letter in the human-readable form. Its record is stored in the JSON form.
func (s *deadLetterHandlers) readable(r *http.Request, l spec.DeadLetter, err error) (any, error) {
	if err == nil && len(l.Record) > 0 {
		l.Record, err = record.Readable(l.Record)
	}
	if err == nil && len(l.Original) > 0 {
		l.Original, err = record.Readable(l.Original)
	}
	return found(s, r, l, err)
}

// Delete drops a dead letter.
func (s *deadLetterHandlers) Delete(_ http.ResponseWriter, r *http.Request) (any, error) {
	id, err := s.id(r)
	if err != nil {
		return nil, err
	}
	n, err := s.Store.Drop(r.Context(), r.PathValue("id"), []int64{id})
	if err == nil && n == 0 {
		err = spec.ErrNotFound
	}
	return found(s, r, rest.DeadLettersDropped{Dropped: n}, err)
}

// DeleteSome drops the selected dead letters: by id, by filter, or all.
func (s *deadLetterHandlers) DeleteSome(_ http.ResponseWriter, r *http.Request) (any, error) {
	if s.Store == nil {
		return nil, notFound()
	}
	f, err := filter(r)
	if err != nil {
		return nil, err
	}
	ids, err := numbers(r)
	if err != nil {
		return nil, err
	}
	all, err := flagParam(r, "all")
	if err != nil {
		return nil, err
	}
	if err := errors.Join(checkSelection(ids, f, all), s.here(r.Context(), r.PathValue("id"))); err != nil {
		return nil, err
	}
	var n int64
	if len(ids) > 0 {
		n, err = s.Store.Drop(r.Context(), r.PathValue("id"), ids)
	} else {
		n, err = s.Store.DropAll(r.Context(), r.PathValue("id"), f)
	}
	return answer(rest.DeadLettersDropped{Dropped: n}, err)
}

// here returns an error when neither the disk of this agent nor the store of its cluster has dead letters of a
// pipeline, but the disk of another member has.
func (s *deadLetterHandlers) here(ctx context.Context, pipeline string) error {
	away := s.Placements.DeadLettersElsewhere(pipeline)
	if len(away) == 0 {
		return nil
	}
	page, err := s.Store.List(ctx, pipeline, spec.DeadLetterFilter{}, 0, 1)
	if err != nil || page.Totals.Count > 0 {
		return err
	}
	return rest.Errorf(rest.FailedPrecondition, rest.ReasonDeadLettersElsewhere,
		"neither this member of the cluster nor its store has dead letters of pipeline %q: %s", pipeline,
		spec.DeadLettersText(away)).
		With("pipelineId", pipeline).Suggest("query that member, as with --api.address; it replays them whichever " +
		"member runs the pipeline")
}

// checkSelection returns an error unless the request selects dead letters in exactly one way: by ids, by a filter, or
// all.
func checkSelection(ids []int64, f spec.DeadLetterFilter, all bool) error {
	ways := 0
	for _, given := range []bool{len(ids) > 0, f != spec.DeadLetterFilter{}, all} {
		if given {
			ways++
		}
	}
	if ways == 1 {
		return nil
	}
	return fieldError(spec.CodeInvalid, "ids", "no dead letters selected: give either ids, a filter, or all")
}

// id returns the id of the dead letter in the path of the request.
func (s *deadLetterHandlers) id(r *http.Request) (int64, error) {
	id, err := strconv.ParseInt(r.PathValue("letter"), 10, 64)
	if err != nil || s.Store == nil {
		return 0, s.notFound(r)
	}
	return id, nil
}

// notFound returns an error that names the other members of the cluster that have dead letters of the pipeline on their
// disks. Each member numbers its own dead letters.
func (s *deadLetterHandlers) notFound(r *http.Request) error {
	letter, pipeline := r.PathValue("letter"), r.PathValue("id")
	if away := s.Placements.DeadLettersElsewhere(pipeline); len(away) > 0 {
		return rest.Errorf(rest.NotFound, rest.ReasonDeadLettersElsewhere,
			"there is no dead letter %.40q of pipeline %.200q on this member of the cluster; %s", letter, pipeline,
			spec.DeadLettersText(away)).
			With("configPath", "letter").With("pipelineId",
			pipeline).Suggest("query the member that has it, as with --api.address; each member " +
			"numbers those on its own disk")
	}
	if _, err := s.Desired.Pipeline(r.Context(), pipeline); err != nil && s.Store != nil {
		page, failed := s.Store.List(r.Context(), pipeline, spec.DeadLetterFilter{}, 0, 1)
		if e := known(err); e != nil && failed == nil && page.Totals.Count == 0 {
			return e // neither a declared pipeline nor a withdrawn one with dead letters
		}
	}
	return rest.Errorf(rest.NotFound, rest.ReasonNotFound, "there is no dead letter %.40q of pipeline %.200q", letter,
		pipeline).
		With("configPath", "letter").Suggest("it may have been replayed or dropped; GET "+
		"/v1/pipelines/%s/dead-letters lists the dead letters", pipeline)
}

func found[T any](s *deadLetterHandlers, r *http.Request, v T, err error) (any, error) {
	if errors.Is(err, spec.ErrNotFound) {
		return nil, s.notFound(r)
	}
	return answer(v, err)
}

// answer returns v, or err as a rest.Error. An error of another type counts as a failure of the store.
func answer[T any](v T, err error) (any, error) {
	if e := known(err); e != nil {
		return nil, e
	}
	if err != nil {
		return nil, rest.Errorf(rest.Unavailable, rest.ReasonUnavailable, "%v", err)
	}
	return v, nil
}

// filter returns the filter that the query describes.
func filter(r *http.Request) (f spec.DeadLetterFilter, err error) {
	q := r.URL.Query()
	f.Error, f.Key, f.Stage = q.Get("error"), q.Get("key"), spec.DeadLetterStage(q.Get("stage"))
	if f.Since, err = moment(r, "since"); err != nil {
		return f, err
	}
	if f.Until, err = moment(r, "until"); err != nil {
		return f, err
	}
	return f, checkFilter(f)
}

func checkFilter(f spec.DeadLetterFilter) error {
	switch f.Stage {
	case "", spec.RefusedBySourceProcessor, spec.RefusedByPipelineProcessor, spec.RefusedByDestinationProcessor,
		spec.RefusedByDestination:
		return nil
	}
	return fieldError(spec.CodeInvalid, "stage",
		"stage must be source-processor, pipeline-processor, destination-processor or destination")
}

// moment returns the time in a parameter, zero without it.
func moment(r *http.Request, name string) (time.Time, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, fieldError(spec.CodeInvalid, name, name+" must be a time such as 2026-01-02T15:04:05Z, not "+
			strconv.Quote(text))
	}
	return at, nil
}

// numbers returns the ids of the query.
func numbers(r *http.Request) (ids []int64, err error) {
	for text := range strings.SplitSeq(r.URL.Query().Get("ids"), ",") {
		if text == "" {
			continue
		}
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fieldError(spec.CodeInvalid, "ids",
				"ids must be numbers separated by commas, not "+strconv.Quote(text))
		}
		ids = append(ids, id)
	}
	return ids, nil
}
