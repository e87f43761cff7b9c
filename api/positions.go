package api

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"

	"github.com/conduit-agent/conduit/api/guard"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// Checkpoints keeps the checkpoints of sources.
type Checkpoints interface {
	// Checkpoint returns the checkpoint of the source with this qualified id, nil if it has none.
	Checkpoint(ctx context.Context, connectorID string) (*spec.Checkpoint, error)
	// MoveCheckpoint replaces the position of a source of d's pipeline if it still is before, or forgets it when c has
	// none. Otherwise it returns spec.ErrConflict. No run that has begun can save positions afterwards. The move is
	// recorded in the history and the events of the pipeline.
	MoveCheckpoint(ctx context.Context, d *spec.Declaration, c spec.Checkpoint, before record.Position,
		event spec.Event) error
}

var (
	examplePosition = rest.Position{ConnectorID: "orders:shop", PipelineID: "orders", Plugin: "builtin:generator",
		SavedBy: "builtin:generator", Position: []byte("42"), Epoch: 3, Records: 17}
	exampleSetPosition = rest.SetPosition{Position: []byte("40")}
)

// positionRoutes returns the operations of source positions.
func (s *Server) positionRoutes(base shared) []route {
	p := &positionHandlers{shared: base, Store: s.Positions}
	const path = "/v1/connectors/{id}/position"
	return []route{
		{operation{Method: get, Path: path, ID: "getPosition", Tag: "connectors", Summary: "Get the position of a " +
			"source",
			Query: []param{{Name: "to",
				Description: "A position in base64, or empty for none: adds to the response what moving it there " +
					"would do.", Example: "NDA="}},
			Response: examplePosition, Errors: []int{400, 404}}, p.Get, guard.Read, nil},
		{operation{Method: put, Path: path, ID: "setPosition", Tag: "connectors",
			Summary: "Set the position of a source",
			Description: "Only while its pipeline is stopped. Records between the positions are delivered again or " +
				"skipped. Only the plugin checks the position, when the pipeline starts.",
			Headers: ifMatch, Request: exampleSetPosition, Response: examplePosition, Errors: []int{400, 404, 412}},
			p.Set, guard.Admin, nil},
		{operation{Method: remove, Path: path, ID: "resetPosition", Tag: "connectors",
			Summary:     "Delete the position of a source",
			Description: "Only while its pipeline is stopped.", Headers: ifMatch, Response: examplePosition,
			Errors: []int{400, 404, 412}}, p.Reset, guard.Admin, nil},
	}
}

// positionHandlers shows where sources resume, and moves the position of a stopped pipeline's source.
type positionHandlers struct {
	shared
	Store Checkpoints // nil: positions are not available
}

// Get answers with the position of a source and its ETag. If the query has a target position, it also answers with the
// effect of moving there.
func (s *positionHandlers) Get(w http.ResponseWriter, r *http.Request) (any, error) {
	d, at, c, err := s.source(r)
	if err != nil {
		return nil, err
	}
	body := s.present(w, d, at, c)
	if query := r.URL.Query(); query.Has("to") {
		to, err := base64.StdEncoding.DecodeString(query.Get("to"))
		if err != nil {
			return nil, fieldError(spec.CodeInvalid, "to", "to must be a position in base64, or empty")
		}
		body.Consequence = consequence(body.Position, to)
	}
	return body, nil
}

// Set moves the position of a source of a stopped pipeline.
func (s *positionHandlers) Set(w http.ResponseWriter, r *http.Request) (any, error) {
	var body rest.SetPosition
	if err := readJSON(w, r, &body); err != nil {
		return nil, err
	}
	switch n := len(body.Position); {
	case n == 0:
		return nil, fieldError(spec.CodeRequired, "position",
			"position is missing; to start over, DELETE it")
	case n > record.MaxPosition:
		return nil, fieldError(spec.CodeInvalid, "position",
			fmt.Sprintf("position has %d bytes, more than %d", n, record.MaxPosition))
	}
	return s.move(w, r, body.Position)
}

// Reset removes the position of a source of a stopped pipeline, which then begins anew.
func (s *positionHandlers) Reset(w http.ResponseWriter, r *http.Request) (any, error) {
	return s.move(w, r, nil)
}

func (s *positionHandlers) move(w http.ResponseWriter, r *http.Request, to record.Position) (any, error) {
	d, at, c, err := s.source(r)
	if err != nil {
		return nil, err
	}
	if err := matches(r, checkpointTag(c)); err != nil {
		return nil, err
	}
	if err := s.stopped(d); err != nil {
		return nil, err
	}
	source := &d.Pipeline.Connectors[at]
	next := spec.Checkpoint{ConnectorID: d.Pipeline.QualifiedID(source.ID), PipelineID: d.Pipeline.ID,
		Plugin: source.Plugin, Position: to}
	var before record.Position
	if c != nil {
		before = c.Position
	}
	err = s.Store.MoveCheckpoint(r.Context(), d, next, before, positionMoved(d, source.ID, before, to))
	if errors.Is(err, spec.ErrConflict) {
		err = outOfDate()
	}
	if err != nil {
		return nil, err
	}
	if c, err = s.Store.Checkpoint(r.Context(), next.ConnectorID); err != nil {
		return nil, err
	}
	return s.present(w, d, at, c), nil
}

// source returns the source in the path of the request and its checkpoint, nil if it has none.
func (s *positionHandlers) source(r *http.Request) (d *spec.Declaration, at int, c *spec.Checkpoint, err error) {
	if s.Store == nil {
		return nil, 0, nil, notFound()
	}
	id := r.PathValue("id")
	if d, at, err = s.Desired.Connector(r.Context(), id); err != nil {
		return nil, 0, nil, err
	}
	if d.Pipeline.Connectors[at].Type != spec.TypeSource {
		return nil, 0, nil, rest.Errorf(rest.InvalidArgument, spec.CodeInvalid,
			"connector %q is a destination: only sources have positions", id)
	}
	c, err = s.Store.Checkpoint(r.Context(), id)
	return d, at, c, err
}

// stopped returns an error unless d's pipeline is declared to stop and has stopped.
func (s *positionHandlers) stopped(d *spec.Declaration) error {
	id := d.Pipeline.ID
	state, known := s.Loop.State(id)
	if d.Want() == spec.StatusStopped && (!known || state.Phase == spec.PhaseStopped) {
		return nil
	}
	return rest.Errorf(rest.FailedPrecondition, rest.ReasonPipelineRunning,
		"pipeline %q is not stopped: the position of a source can be moved only while the pipeline is stopped", id).
		Suggest("stop the pipeline first")
}

// positionMoved describes the change of the source with this id.
func positionMoved(d *spec.Declaration, id string, before, after record.Position) spec.Event {
	e := spec.Event{Pipeline: d.Pipeline.ID, Type: spec.EventNormal, Reason: "PositionSet",
		Message: fmt.Sprintf("source %s resumes from %s, no longer from %s", id, positionWords(after),
			positionWords(before))}
	if after == nil {
		e.Reason, e.Message = "PositionReset", fmt.Sprintf(
			"source %s starts over, and no longer resumes from %s", id, positionWords(before),
		)
	}
	return e
}

// positionWords formats a position for people.
func positionWords(p record.Position) string {
	if len(p) == 0 {
		return "its beginning"
	}
	return fmt.Sprintf("%.200q", p)
}

func checkpointTag(c *spec.Checkpoint) string {
	if c == nil {
		return etag(nil)
	}
	return etag(c.Position)
}

func (s *positionHandlers) present(
	w http.ResponseWriter, d *spec.Declaration, at int, c *spec.Checkpoint,
) rest.Position {
	w.Header().Set("ETag", checkpointTag(c))
	source := &d.Pipeline.Connectors[at]
	body := rest.Position{ConnectorID: d.Pipeline.QualifiedID(source.ID), PipelineID: d.Pipeline.ID,
		Plugin: source.Plugin}
	if c != nil {
		body.Position, body.Epoch, body.Records, body.SavedBy = c.Position, c.Epoch, c.Sequence, c.Plugin
	}
	return body
}
