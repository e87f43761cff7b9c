package api

import (
	"net/http"

	"github.com/conduit-agent/conduit/api/guard"
	"github.com/conduit-agent/conduit/api/rest"
)

// pluginRoutes returns the operations of plugins.
func (*Server) pluginRoutes(base shared) []route {
	plugins := &pluginHandlers{shared: base}
	return []route{
		{operation{Method: get, Path: "/v1/connectors/plugins", ID: "listConnectorPlugins", Tag: "plugins",
			Summary: "List connector plugins and their settings",
			Query:   []param{nameParam}, Response: list(examplePlugin), Errors: []int{400}}, plugins.Connectors,
			guard.Read, nil},
		{operation{Method: get, Path: "/v1/processors/plugins", ID: "listProcessorPlugins", Tag: "plugins",
			Summary: "List processor plugins and their settings",
			Query:   []param{nameParam}, Response: list(exampleProcessorPlugin), Errors: []int{400}},
			plugins.Processors,
			guard.Read, nil},
		{operation{Method: get, Path: "/v1/plugins", ID: "listPlugins", Tag: "plugins",
			Summary: "List connector plugins (former path)",
			Query:   []param{nameParam}, Response: list(examplePlugin), Errors: []int{400}}, plugins.Connectors,
			guard.Read, nil},
	}
}

// pluginHandlers lists the plugins available to pipelines.
type pluginHandlers struct{ shared }

// Connectors answers with the connector plugins.
func (s *pluginHandlers) Connectors(_ http.ResponseWriter, r *http.Request) (any, error) {
	name, err := namePattern(r)
	list := []rest.Plugin{}
	if err != nil {
		return nil, err
	}
	for _, p := range s.Desired.Plugins.Plugins() {
		if name.MatchString(p.Name) {
			list = append(list, p)
		}
	}
	return list, nil
}

// Processors answers with the processor plugins.
func (s *pluginHandlers) Processors(_ http.ResponseWriter, r *http.Request) (any, error) {
	name, err := namePattern(r)
	list := []rest.ProcessorPlugin{}
	if err != nil {
		return nil, err
	}
	for _, p := range s.Desired.Plugins.Processors() {
		if name.MatchString(p.Name) {
			list = append(list, p)
		}
	}
	return list, nil
}
