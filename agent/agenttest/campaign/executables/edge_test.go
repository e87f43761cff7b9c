package executables_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
)

// libraries are contained in the full binary and not in conduit-edge.
var libraries = []string{
	"plugins/builtin/http", "plugins/builtin/journald", "plugins/builtin/nats", "plugins/builtin/sqlite",
	"plugins/builtin/syslog", "github.com/twmb/franz-go", "github.com/eclipse/paho", "github.com/go-sql-driver/mysql",
	"github.com/jackc/pgx", "github.com/gomodule/redigo", "github.com/minio/minio-go", "github.com/dop251/goja",
	"github.com/tetratelabs/wazero", "github.com/expr-lang/expr", "agent/cluster/", "agent/prove",
	"cmd/conduit/tools",
	"cmd/conduit/docs", "net/http/pprof", "plugins/zstd", "github.com/klauspost/compress",
}

// TestEdgeContainsLittle checks that conduit-edge contains none of the libraries.
func TestEdgeContainsLittle(t *testing.T) {
	load.Parallel(t, load.CPU)
	deps := func(name string) string {
		cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "github.com/conduit-agent/conduit/cmd/"+name)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("cannot list packages: %v\n%s", err, out)
		}
		return string(out)
	}
	full, edge := deps("conduit"), deps("conduit-edge")
	for _, library := range libraries {
		if !strings.Contains(full, library) {
			t.Errorf("conduit has no %s", library)
		}
		if strings.Contains(edge, library) {
			t.Errorf("conduit-edge has %s", library)
		}
	}
}

// TestEdgeNamesTheFullBinary checks that conduit-edge runs a pipeline with its plugins, and that its errors about
// everything else name the full binary.
func TestEdgeNamesTheFullBinary(t *testing.T) {
	load.Parallel(t, load.CPU)
	dir := t.TempDir()
	edge := filepath.Join(dir, "conduit-edge")
	// As a release contains it: without parts of SQLite that the agent must not need.
	build := exec.CommandContext(t.Context(), "../../../../.ci/build", "conduit-edge", edge)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("cannot build: %v\n%s", err, out)
	}
	run := func(want string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), edge, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); !strings.Contains(string(out), want) {
			t.Errorf("%q: %v, without %q:\n%s", args, err, want, out)
		}
	}
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const hint = "the full binary, conduit, has all"
	write("pipelines/p.yaml", `version: "2.2"
pipelines:
  - id: p
    connectors:
      - {id: in, type: source, plugin: builtin:file, settings: {path: in.txt}}
      - {id: out, type: destination, plugin: builtin:file, settings: {path: out.txt, sdk.record.format: template,
         sdk.record.format.options: "{{ printf \"%s\" .Payload.After }}"}}
    processors:
      - {id: upper, plugin: field.set, settings: {field: .Payload.After, value: '{{ upper "done" }}'}}
`)
	write("in.txt", "one\n")
	run("", "run", "--once", "--api.enabled=false")
	if out, err := os.ReadFile(filepath.Join(dir, "out.txt")); err != nil || strings.TrimSpace(string(out)) != "DONE" {
		t.Errorf("the pipeline wrote %q, %v", out, err)
	}
	write("other.yaml", `version: "2.2"
pipelines:
  - id: p
    connectors:
      - {id: in, type: source, plugin: builtin:kafka, settings: {servers: "h:1", topics: t}}
      - {id: out, type: destination, plugin: builtin:log}
    processors:
      - {id: script, plugin: custom.javascript, settings: {script: x}}
`)
	run(`cannot find plugin "builtin:kafka"`, "pipelines", "validate", "other.yaml")
	run(`cannot find processor "custom.javascript"`, "pipelines", "validate", "other.yaml")
	run(hint, "pipelines", "validate", "other.yaml")
	write("processors/mine.wasm", "x")
	run("cannot run WebAssembly; the full binary, conduit, can", "plugins", "ls")
	write("packed/p.yaml", `version: "2.2"
pipelines:
  - id: reads
    connectors:
      - {id: in, type: source, plugin: builtin:file, settings: {path: in.zst, compression: zstd}}
      - {id: out, type: destination, plugin: builtin:log}
  - id: writes
    connectors:
      - {id: in, type: source, plugin: builtin:file, settings: {path: in.txt}}
      - id: out
        type: destination
        plugin: builtin:file
        settings: {path: out, rotate.size: 1000, rotate.compression: zstd}
`)
	for _, setting := range []string{"compression", "rotate.compression"} {
		run(`"`+setting+`": this binary has no Zstandard; the full binary, conduit, has`,
			"run", "--once", "--api.enabled=false", "--pipelines.path=packed", "--db.sqlite.path=packed.db")
	}
	write("conduit.yaml", "cluster:\n  name: edge\n  nats:\n    url: nats://127.0.0.1:1\n")
	run("this binary does not support clusters", "run")
	run("this binary does not support clusters", "doctor")
}
