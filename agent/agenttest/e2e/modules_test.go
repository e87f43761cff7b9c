package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

// Who runs a module that was replaced is shown, until a restart.
func TestModuleThatIsReplaced(t *testing.T) {
	t.Parallel()
	dir := agenttest.NewDir(t)
	module := buildModule(t, filepath.Join(dir, "conduit.db.modules"))
	path := filepath.Join(dir, "processors", "greet.wasm")
	install := func(content []byte) {
		t.Helper()
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path+".new", content, 0o600)
		}
		if err == nil {
			err = os.Rename(path+".new", path)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	install(module)
	w := startWeb(t, dir)
	shown := func() (c spec.Condition) {
		s, err := w.api.Status(t.Context(), "p")
		if err == nil {
			c = s.Conditions[slices.IndexFunc(s.Conditions, func(c spec.Condition) bool { return c.Type == spec.ConditionPlugin })]
		}
		return c
	}
	w.Save("p.yaml", fmt.Sprintf(`version: "2.2"
pipelines:
  - id: p
    status: running
    connectors:
      - {id: src, type: source, plugin: builtin:generator, settings: {rate: 200, format.type: raw, format.options.n: int}}
      - {id: dst, type: destination, plugin: builtin:file, settings: {path: %s/p.jsonl}, processors: [{id: greet, plugin: with-sdk, workers: 2}]}
`, dir))
	w.Wait("records pass the module", func() bool { return len(rawsIn(t, w.Path("p.jsonl"), "hello,")) > 10 })
	if c := shown(); c.Status != spec.ConditionFalse {
		t.Errorf("before it is replaced: %+v", c)
	}
	install(append(module, 0, 2, 1, 'x')) // a custom section: another file, the same code
	w.Wait("the condition", func() bool { c := shown(); return c.Status == spec.ConditionTrue && c.Reason == "PluginReplaced" })
	if c := shown(); !strings.Contains(c.Message, "processor p:dst:greet runs with-sdk@v1.0.0") || !strings.Contains(c.Message, path) {
		t.Errorf("it is shown as %+v", c)
	}
	w.Wait("one event", func() bool {
		events, err := w.api.Events(t.Context(), -1, 1)
		return err == nil && events[0].Pipeline == "p" && events[0].Reason == "PluginReplaced"
	})
	n := len(rawsIn(t, w.Path("p.jsonl"), "hello,"))
	w.Wait("more records", func() bool { return len(rawsIn(t, w.Path("p.jsonl"), "hello,")) > n+20 })
	w.must("POST", "/v1/pipelines/p/restart", "", nil)
	w.Wait("the condition to end", func() bool { c := shown(); return c.Status == spec.ConditionFalse && c.Reason == "NotChanged" })
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	w.Wait("that it is gone", func() bool { return shown().Reason == "PluginGone" })
}
