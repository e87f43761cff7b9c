package agenttest

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Operation is an operation of the OpenAPI document.
type Operation struct {
	Method, Path string
	Parameters   []struct{ Name, In, Example string }
	RequestBody  struct {
		Content map[string]struct{ Example json.RawMessage }
	}
	Streaming bool `json:"x-streaming"`
}

// Operations returns the operations of the OpenAPI document of an agent.
func Operations(w *Web) (all []Operation) {
	var document struct {
		Paths map[string]map[string]Operation
	}
	w.Must("GET", "/openapi/openapi.json", "", &document)
	for _, path := range slices.Sorted(maps.Keys(document.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(document.Paths[path])) {
			o := document.Paths[path][method]
			o.Method, o.Path = strings.ToUpper(method), path
			all = append(all, o)
		}
	}
	return all
}
