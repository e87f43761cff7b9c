package plugins_test

import (
	"os"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/config"
)

// The maximum size of a record for an executable is the setting of Conduit; a larger record is refused.
func TestGreatRecordsReachExecutables(t *testing.T) {
	load.Parallel(t, load.Agent)
	for name, c := range map[string]struct {
		most    int
		refused int
	}{"by default": {0, 1}, "more": {16 << 20, 0}} {
		t.Run(name, func(t *testing.T) {
			dir := agenttest.NewDir(t)
			agenttest.InstallExecutables(t, dir, "xfile")
			a := agenttest.Start(t, dir, func(settings *config.Config) {
				if c.most > 0 {
					settings.Connectors.MaxReceiveSize = c.most
				}
			})
			if err := os.WriteFile(a.Path("in.txt"), []byte(strings.Repeat("x", 5<<20)+"\nlast\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			a.Save("p.yaml", strings.ReplaceAll(`version: "2.2"
pipelines:
  - id: p
    connectors:
      - {id: in, type: source, plugin: builtin:file, settings: {path: DIR/in.txt}}
      - {id: out, type: destination, plugin: standalone:xfile, settings: {path: DIR/out.jsonl}}
    dead-letter-queue: {plugin: builtin:file, settings: {path: DIR/dead.jsonl}, window-size: 0}
`, "DIR", a.Dir))
			a.Wait("both records", func() bool {
				return agenttest.LineCount(a.Path("out.jsonl"))+agenttest.LineCount(a.Path("dead.jsonl")) == 2
			})
			if n := agenttest.LineCount(a.Path("dead.jsonl")); n != c.refused {
				t.Errorf("%d records are refused, want %d", n, c.refused)
			}
		})
	}
}
