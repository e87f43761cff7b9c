package e2e_test

import (
	"os"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/effort"
	"github.com/conduit-agent/conduit/agent/config"
)

// How great a record may be that an executable gets is the setting of Conduit; one that is
// greater is refused.
func TestGreatRecordsReachExecutables(t *testing.T) {
	effort.Long(t)
	t.Parallel()
	for name, c := range map[string]struct {
		most    int
		refused int
	}{"by default": {0, 1}, "more": {16 << 20, 0}} {
		t.Run(name, func(t *testing.T) {
			dir := agenttest.NewDir(t)
			install(t, dir, "xfile")
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
			a.Wait("both records", func() bool { return lineCount(a.Path("out.jsonl"))+lineCount(a.Path("dead.jsonl")) == 2 })
			if n := lineCount(a.Path("dead.jsonl")); n != c.refused {
				t.Errorf("%d records are refused, want %d", n, c.refused)
			}
		})
	}
}
