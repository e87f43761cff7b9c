package endurance_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/spec"
)

// A pipeline with unbounded demands fails alone: another one continues, and the agent stops within shutdown.timeout
// plus the time limit of one template.
func TestPipelinesCannotAskForTooMuch(t *testing.T) {
	const generated = "{rate: 100, format.type: raw, format.options.n: int}"
	template := func(text string) string {
		return "sdk.record.format: template, sdk.record.format.options: '" + text + "'"
	}
	for name, c := range map[string]struct{ source, destination, want string }{
		"a device":        {"{format.type: file, format.options.path: /dev/zero}", "", "is not a regular file"},
		"a repeated text": {generated, template(`{{ repeat 1000000000 "x" }}`), "bytes"},
		"a long list":     {generated, template(`{{ until 2000000000 }}`), "bytes"},
		"nested loops": {generated, template(`{{ range until 50000 }}{{ range until 50000 }}{{ end }}{{ end }}`),
			"longer than"},
	} {
		t.Run(name, func(t *testing.T) {
			load.Parallel(t, load.Agent)
			dir := agenttest.NewDir(t)
			a := agenttest.Start(t, dir, agenttest.RetryLater, func(c *config.Config) {
				c.Shutdown.Timeout = 2 * time.Second
			})
			a.Save("good.yaml", agenttest.Generated(dir, "good", 100, ""))
			a.WaitPhase("good", spec.PhaseRunning, 1)
			a.Save("bad.yaml", fmt.Sprintf(`version: "2.2"
pipelines:
- id: bad
  status: running
  connectors:
  - {id: src, type: source, plugin: "builtin:generator", settings: %s}
  - {id: dst, type: destination, plugin: "builtin:file", settings: {path: %q, %s}}
  dead-letter-queue: {window-size: 0, plugin: "builtin:file", settings: {path: %q}}
`, c.source, dir+"/bad.out", c.destination, dir+"/bad.dlq"))
			a.Wait("the failure", func() bool {
				dead, _ := os.ReadFile(dir + "/bad.dlq")
				last := a.State("bad").LastAttempt
				return strings.Contains(string(dead), c.want) || last != nil && strings.Contains(last.Error, c.want)
			})
			before := agenttest.LinesIn(t, dir+"/good.jsonl")
			a.Wait("the other pipeline", func() bool { return agenttest.LinesIn(t, dir+"/good.jsonl") > before })
			a.Stop()
		})
	}
}
