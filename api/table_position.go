package api

import (
	"github.com/conduit-agent/conduit/api/guard"
	"github.com/conduit-agent/conduit/api/rest"
)

var (
	examplePosition    = rest.Position{ConnectorID: "orders:shop", PipelineID: "orders", Plugin: "builtin:generator", SavedBy: "builtin:generator", Position: []byte("42"), Epoch: 3, Records: 17}
	exampleSetPosition = rest.SetPosition{Position: []byte("40")}
)

// positionRoutes returns the operations of source positions.
func (s *Server) positionRoutes(base shared) []route {
	p := &positionHandlers{shared: base, Store: s.Positions}
	const path = "/v1/connectors/{id}/position"
	return []route{
		{operation{Method: get, Path: path, ID: "getPosition", Tag: "connectors", Summary: "Get where a source resumes",
			Query:    []param{{Name: "to", Description: "A position in base64, or nothing for none: has the answer say what moving it there would do.", Example: "NDA="}},
			Response: examplePosition, Errors: []int{400, 404}}, p.Get, guard.Read, nil},
		{operation{Method: put, Path: path, ID: "setPosition", Tag: "connectors", Summary: "Have a source resume from another position",
			Description: "Only while its pipeline is stopped. What is between the positions is delivered again or skipped; nothing checks the position but the plugin, when the pipeline starts.",
			Headers:     ifMatch, Request: exampleSetPosition, Response: examplePosition, Errors: []int{400, 404, 412}}, p.Set, guard.Admin, nil},
		{operation{Method: remove, Path: path, ID: "resetPosition", Tag: "connectors", Summary: "Have a source begin anew",
			Description: "Only while its pipeline is stopped.", Headers: ifMatch, Response: examplePosition, Errors: []int{400, 404, 412}}, p.Reset, guard.Admin, nil},
	}
}
