package spec_test

import (
	"testing"

	"github.com/conduit-agent/conduit/spec"
)

// BenchmarkParseFile parses a file with one small pipeline.
func BenchmarkParseFile(b *testing.B) {
	text := []byte(`version: "2.2"
pipelines:
  - id: orders
    status: running
    connectors:
      - id: src
        type: source
        plugin: builtin:generator
        settings:
          rate: "1"
          format.type: structured
          format.options.id: int
          format.options.name: string
      - id: dst
        type: destination
        plugin: builtin:file
        settings:
          path: /var/lib/conduit/orders.jsonl
`)
	b.ReportAllocs()
	for b.Loop() {
		if f := spec.ParseFile("orders.yaml", text); len(f.Pipelines) != 1 {
			b.Fatal(f.Problems)
		}
	}
}
