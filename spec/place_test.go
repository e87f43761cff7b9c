package spec_test

import (
	"testing"

	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/yamldoc"
)

func TestPlace(t *testing.T) {
	f := spec.ParseFile("f.yaml", []byte(`version: "2.2"
pipelines:
  - id: p
    connectors:
      - {id: d, type: destination, plugin: log}
      - id: s
        type: source
        plugin: generator
        settings:
          a/b: "1"
        processors:
          - id: x
            plugin: f
            settings: {k: v}
    processors:
      - id: x
        plugin: g
`))
	if len(f.Pipelines) != 1 {
		t.Fatalf("problems: %v", f.Problems)
	}
	tests := []struct {
		path         string
		line, column int
	}{
		{"/connectors/s/settings/a~1b", 10, 16},
		{"/connectors/d/plugin", 5, 44},
		{"/connectors/s/processors/x/settings/k", 14, 27},
		{"/processors/x/plugin", 17, 17},
		{"/connectors/s/settings/removed", 10, 11},
		{"/connectors/s/processors/gone", 12, 11},
		{"/connectors/gone", 5, 7},
		{"/dead-letter-queue/settings/connectors", 3, 5},
		{"/status", 3, 5},
		{"", 3, 5},
	}
	for _, tt := range tests {
		if got, want := f.Pipelines[0].Place(spec.Change{Path: tt.path}), (yamldoc.Mark{Line: tt.line,
			Column: tt.column}); got != want {
			t.Errorf("%s: at %v, want %v", tt.path, got, want)
		}
	}
}
