package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/plugins/processor/wasm"
	"github.com/conduit-agent/conduit/spec"
)

// buildModule builds a processor that puts a prefix before raw data. It is compiled into the
// cache, which takes long on a busy machine.
func buildModule(t *testing.T, cache string) []byte {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "module")
	cmd := exec.Command("go", "build", "-o", path, "github.com/conduit-agent/conduit/plugins/processor/wasm/testdata/sdk")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cannot build a module: %v\n%s", err, out)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	modules := wasm.New(wasm.Options{Dir: dir, CacheDir: cache, Memory: 512 << 20, SpecifyTimeout: time.Minute})
	modules.Rescan(t.Context())
	if err := modules.Close(t.Context()); err != nil || len(modules.Plugins()) != 1 {
		t.Fatalf("cannot compile the module: %v, %v", err, modules.Problems())
	}
	return b
}

// rawsIn returns the raw payloads in a file of records that begin with the prefix.
func rawsIn(t *testing.T, path, prefix string) (all []string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		var m struct{ Payload struct{ After []byte } }
		if json.Unmarshal(line, &m) == nil && bytes.HasPrefix(m.Payload.After, []byte(prefix)) {
			all = append(all, string(m.Payload.After))
		}
	}
	return all
}

// said returns what is wrong with pipeline p and its file.
func said(t *testing.T, a *agenttest.Agent) string {
	t.Helper()
	files, err := a.Store.FileStates(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, f := range files {
		for _, p := range f.Problems {
			text += p.Message
		}
	}
	state := a.State("p")
	if state.LastAttempt != nil {
		text += state.LastAttempt.Error
	}
	return text + state.Error
}

// A module that is put into processors.path while the agent runs is used at once, several
// instances of it at a time, and checked like every processor.
func TestModuleIsFoundWhileTheAgentRuns(t *testing.T) {
	t.Parallel()
	dir := agenttest.NewDir(t)
	module := buildModule(t, filepath.Join(dir, "conduit.db.modules"))
	a := agenttest.Start(t, dir)
	text := func(setting string) string {
		return fmt.Sprintf(`version: "2.2"
pipelines:
  - id: p
    status: running
    processors:
      - {id: greet, plugin: standalone:with-sdk, workers: 2, settings: {%s}}
    connectors:
      - {id: src, type: source, plugin: builtin:generator, settings: {rate: 200, format.type: raw, format.options.n: int}}
      - {id: dst, type: destination, plugin: builtin:file, settings: {path: %s/p.jsonl}}
`, setting, dir)
	}
	a.Save("p.yaml", text(`prefix: "hi:"`))
	a.Wait("the pipeline waits for its processor", func() bool { return strings.Contains(said(t, a), "cannot find processor") })
	if err := os.MkdirAll(filepath.Join(dir, "processors"), 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "processors", "greet.wasm")
	if err := os.WriteFile(path+".new", module, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path+".new", time.Now(), time.Now().Add(-time.Minute)); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	a.Wait("records pass the module", func() bool { return len(rawsIn(t, a.Path("p.jsonl"), "hi:")) > 10 })
	// It is exchanged while records flow.
	a.Save("p.yaml", text(`prefix: "ho:"`))
	a.Wait("records pass the module with the other setting", func() bool { return len(rawsIn(t, a.Path("p.jsonl"), "ho:")) > 10 })
	a.Save("p.yaml", text(`count: none`))
	a.Wait("a setting that is wrong is refused", func() bool { return strings.Contains(said(t, a), "count") })
	if s := a.State("p"); s.Phase != spec.PhaseRunning {
		t.Errorf("the pipeline is %v", s)
	}
}
