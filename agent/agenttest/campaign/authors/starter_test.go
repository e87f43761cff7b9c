package authors

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/built"
	"github.com/conduit-agent/conduit/cmd/conduit/tools"
	"github.com/conduit-agent/conduit/plugins/processor/wasm"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/plugins/standalone"
)

// TestBuildConnector builds a connector as a new user without a checkout does.
func TestBuildConnector(t *testing.T) {
	specify(t, build(t, tools.ConnectorPlugin))
}

// TestBuildProcessor builds a processor and processes a record with it.
func TestBuildProcessor(t *testing.T) {
	path := build(t, tools.ProcessorPlugin, "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	old := time.Now().Add(-time.Hour) // so that the file does not look incomplete
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Rename(path, filepath.Join(dir, "mine.wasm")); err != nil {
		t.Fatal(err)
	}
	compiled, err := built.Modules("starter")
	if err != nil {
		t.Fatal(err)
	}
	modules := wasm.New(wasm.Options{Dir: dir, CacheDir: compiled})
	defer func() { _ = modules.Close(context.Background()) }()
	modules.Rescan(t.Context())
	plugins := modules.Plugins()
	if len(plugins) != 1 || plugins[0].Name != "mine" {
		t.Fatalf("plugins are %+v, problems %+v", plugins, modules.Problems())
	}
	p := plugins[0].New()
	defer func() { _ = p.Teardown(context.Background()) }()
	if err := errors.Join(p.Configure(t.Context(), p.Parameters().ApplyDefaults(nil)),
		p.Open(t.Context())); err != nil {
		t.Fatal(err)
	}
	records := []record.Record{{After: record.Raw([]byte("x"))}}
	if err := p.Process(t.Context(), sdk.NewProcessBatch(nil, records, nil)); err != nil ||
		records[0].Metadata.Get("greeting") != "hello" {
		t.Errorf("%v, %v", records[0].Map(), err)
	}
}

// TestTidyStarters checks that the tests of a new plugin pass before and after 'go mod tidy', and that tools can list
// its modules. A connector is tidy as it is written.
func TestTidyStarters(t *testing.T) {
	for _, kind := range []tools.PluginKind{tools.ConnectorPlugin, tools.ProcessorPlugin} {
		dir := filepath.Join(t.TempDir(), "mine")
		if err := (tools.Plugin{Kind: kind, Name: "mine", Version: "v0.0.0"}).Write(dir); err != nil {
			t.Fatal(err)
		}
		network := []string{"GOPROXY=" + goEnv(t, "GOPROXY")} // of modules that only tests of others import
		goCommand(t, dir, network, "list", "-m", "all")
		goCommand(t, dir, nil, "test", "-trimpath", "-mod=readonly", "./...")
		if kind == tools.ConnectorPlugin {
			goCommand(t, dir, network, "mod", "tidy", "-diff")
		}
		goCommand(t, dir, network, "mod", "tidy")
		goCommand(t, dir, nil, "test", "-trimpath", "-mod=readonly", "./...")
	}
}

// build writes the template of a plugin to a directory and builds it, with environment added to the environment of the
// build. It also runs the tests of a processor, and returns the path of the executable.
func build(t *testing.T, kind tools.PluginKind, environment ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "mine")
	if err := (tools.Plugin{Kind: kind, Name: "mine", Version: "v0.0.0"}).Write(dir); err != nil {
		t.Fatal(err)
	}
	// With -trimpath the build cache serves a build in any directory.
	goCommand(t, dir, environment, "build", "-trimpath", "-mod=readonly", "-ldflags=-w", "-o", "mine", ".")
	if kind == tools.ProcessorPlugin {
		goCommand(t, dir, nil, "test", "-trimpath", "-mod=readonly", ".")
	}
	return filepath.Join(dir, "mine")
}

func goCommand(t *testing.T, dir string, environment []string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "GOWORK=off", "GOPROXY=off"), environment...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %v: %v\n%s", args, err, out)
	}
}

// specify checks the specification that the executable returns.
func specify(t *testing.T, path string) {
	t.Helper()
	s, err := (&standalone.Client{Path: path}).Specify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.Name != "mine" || s.Source["interval"].Default != "1s" || s.Destination["path"].Description == "" {
		t.Errorf("got %+v", s)
	}
}
