package api

import (
	"net/http"

	"github.com/conduit-agent/conduit/api/rest"
)

// Plugins lists the plugins available to pipelines.
type Plugins struct{ Base }

// Connectors answers with the connector plugins.
func (s *Plugins) Connectors(_ http.ResponseWriter, r *http.Request) (any, error) {
	name, err := Name(r)
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
func (s *Plugins) Processors(_ http.ResponseWriter, r *http.Request) (any, error) {
	name, err := Name(r)
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
