package agenttest

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/conduit-agent/conduit/spec"
)

// Lines formats a plan: a line for each pipeline that changes, with its changes and their places, and a line for each
// problem.
func Lines(plan *spec.Plan) []string {
	var lines []string
	for _, p := range plan.Pipelines {
		var changes []string
		for _, c := range p.Changes {
			changes = append(changes, fmt.Sprintf("%s@%d:%d", c.Path, c.Line, c.Column))
		}
		lines = append(lines, fmt.Sprintf("%s %s: %s %s→%s at %s:%d [%s]", p.Action, p.ID, p.Effect, p.From, p.To,
			filepath.Base(p.File), p.Line, strings.Join(changes, " ")))
	}
	for _, p := range plan.Problems {
		lines = append(lines, filepath.Base(p.File)+": "+p.Code)
	}
	return lines
}

// File is a pipeline file with one pipeline.
func File(id, status, rate string) string {
	return fmt.Sprintf(`version: "2.2"
pipelines:
  - id: %s
    status: %s
    connectors:
      - {id: in, type: source, plugin: generator, settings: {rate: %q, format.type: raw}}
      - {id: out, type: destination, plugin: log}
`, id, status, rate)
}
