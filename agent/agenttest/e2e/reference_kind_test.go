package e2e_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent"
	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/parts"
	"github.com/conduit-agent/conduit/agent/reference"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/spec"
)

// reversed is a kind of references that no binary has. Its argument reversed is its value.
var reversed = spec.ReferenceKind{
	Name: "reversed", Syntax: "${reversed:text}", Description: "the argument reversed",
	Read: func(_ context.Context, argument string, _ spec.ReferenceAccess) (string, error) {
		var b strings.Builder
		for i := len(argument) - 1; i >= 0; i-- {
			b.WriteByte(argument[i])
		}
		return b.String(), nil
	},
}

// A kind of references in the list that main passes works in the pipelines of the agent. Without it in the list, the
// pipeline file has an error that names the kinds of the list.
func TestAnotherKindOfReferences(t *testing.T) {
	dir := agenttest.NewDir(t)
	cfg, _, err := config.Load(config.Sources{})
	if err != nil {
		t.Fatal(err)
	}
	cfg.DB.SQLite.Path, cfg.Pipelines.Path = filepath.Join(dir, "conduit.db"), filepath.Join(dir, "pipelines")
	cfg.API.Enabled = false
	output := filepath.Join(dir, "output")
	text := fmt.Sprintf(`version: "2.2"
pipelines:
  - id: p
    connectors:
      - {id: in, type: source, plugin: generator, settings: {recordCount: 1, collections.c.format.type: raw,
          collections.c.format.options.v: int, collections.c.operations: create}}
      - {id: out, type: destination, plugin: file, settings: {path: %s}}
    processors:
      - {id: set, plugin: field.set, settings: {field: .Metadata.canary, value: "x-${reversed:cba}"}}
`, output)
	if err := os.WriteFile(filepath.Join(cfg.Pipelines.Path, "p.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, known := range []bool{false, true} {
		o := agent.Options{Config: cfg, Plugins: parts.Plugins(), References: reference.Kinds()}
		if known {
			o.References = append(o.References, reversed)
		}
		var log wait.Buffer
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- agent.Run(ctx, o) }()
		wait.For(t, "the outcome", func() bool {
			if known {
				written, _ := os.ReadFile(output)
				return strings.Contains(string(written), "x-abc")
			}
			return strings.Contains(log.String(), `p.yaml`) &&
				strings.Contains(log.String(), `is a reference of the unknown kind`) &&
				strings.Contains(log.String(), "${file:/path} or ${credential:name}")
		})
		end()
		if err := <-ended; err != nil {
			t.Errorf("known %t: %v", known, err)
		}
	}
}
