package api

import (
	"net/http"

	"github.com/conduit-agent/conduit/api/rest"
)

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
