package agent

import (
	"testing"

	"github.com/conduit-agent/conduit/spec"
)

// Pipelines with local resources stay on their agent.
func TestIsLocal(t *testing.T) {
	declared := func(kind spec.OwnerKind, plugin string) *spec.Declaration {
		return &spec.Declaration{Owner: spec.Owner{Kind: kind}, Pipeline: spec.Pipeline{Connectors: []spec.Connector{{Plugin: "builtin:file"}, {Plugin: plugin}}}}
	}
	for plugin, want := range map[string]bool{"builtin:spool": true, "spool": true, "builtin:spool@v1.0.0": true, "standalone:spooler": false, "builtin:log": false} {
		if got := isLocal(declared(spec.OwnerFile, plugin)); got != want {
			t.Errorf("a pipeline of a file with %s is local: %v", plugin, got)
		}
	}
	if !isLocal(declared(spec.OwnerAPI, "builtin:log")) {
		t.Error("a pipeline of the API is shared")
	}
}
