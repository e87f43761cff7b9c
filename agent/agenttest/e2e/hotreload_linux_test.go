package e2e_test

import (
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/config"
)

// Agents with separate stores can watch the same directory without affecting each other.
func TestTwoAgentsOnOneDirectory(t *testing.T) {
	t.Parallel()
	logged := func(version int) string {
		return strings.Replace(agenttest.Generated("", "p", version, ""),
			"plugin: builtin:file\n        settings: {path: \"/p.jsonl\"}", "plugin: builtin:log", 1)
	}
	one := deskIn(t, "")
	one.Save("p.yaml", logged(1))
	two := deskIn(t, "", func(c *config.Config) { c.Pipelines.Path = one.Path("pipelines") })
	one.Runs("p", 1)
	two.Runs("p", 1)
	one.outcome("p.yaml", logged(1))
	two.outcome("p.yaml", logged(1))
	one.Save("p.yaml", logged(2))
	one.Runs("p", 2)
	two.Runs("p", 2)
	one.Stop()
	one.Save("p.yaml", logged(3))
	two.Runs("p", 3)
	one.again(func() {}).Runs("p", 3)
	two.WantStarts("p", 3)
}
