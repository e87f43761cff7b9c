package api

import (
	"net/http"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// inspection describes an operation that shows records as they pass.
func inspection(path, id, tag, summary string) operation {
	return operation{Method: get, Path: path, ID: id, Tag: tag, Summary: summary,
		Description: "Over WebSocket one message per record, otherwise one line. Records beyond the rate are " +
			"dropped, and {\"dropped\":n} counts the matching ones.",
		Query: []param{{Name: "filter", Description: "operation=NAME or metadata.KEY=VALUE; may be repeated",
			Example: "operation=create"},
			{Name: "rate", Description: "maximum number of records per second", Example: "10"}},
		Response: exampleRecord, MediaType: "application/x-ndjson", Streaming: true, Errors: []int{400, 404, 429}}
}

// inspect shows the records that pass a connector from now on.
func (s *Server) inspect(w http.ResponseWriter, r *http.Request) (any, error) {
	id := r.PathValue("id")
	if _, _, err := s.state.Connector(r.Context(), id); err != nil {
		return nil, err
	}
	return nil, s.inspector.Serve(w, r, id)
}

// inspectDestination shows the input of a destination's processors, or their output, which the destination writes.
func (s *Server) inspectDestination(side string) handle {
	return func(w http.ResponseWriter, r *http.Request) (any, error) {
		id := r.PathValue("id")
		d, at, err := s.state.Connector(r.Context(), id)
		switch {
		case err != nil:
			return nil, err
		case d.Pipeline.Connectors[at].Type != spec.TypeDestination:
			return nil, rest.Errorf(rest.InvalidArgument, spec.CodeInvalid,
				"connector %q is a source: only destinations have records before and after their processors", id).
				Suggest("GET /v1/connectors/%s/inspect shows the records that it reads", id)
		case side == InspectIn:
			id += side
		}
		return nil, s.inspector.Serve(w, r, id)
	}
}

// inspectProcessor shows the records on one side of a processor.
func (s *Server) inspectProcessor(side string) handle {
	return func(w http.ResponseWriter, r *http.Request) (any, error) {
		id := r.PathValue("id")
		if _, _, _, err := s.state.Processor(r.Context(), id); err != nil {
			return nil, err
		}
		return nil, s.inspector.Serve(w, r, id+side)
	}
}
