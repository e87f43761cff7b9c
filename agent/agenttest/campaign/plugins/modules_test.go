package plugins_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/built"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/processor/wasm"
	"github.com/conduit-agent/conduit/spec"
)

// greeter is a module that adds a prefix to raw data, and a second file with the same code. Both are compiled into
// compiled: that takes long on a busy machine.
var greeter = sync.OnceValues(func() (m struct {
	one, other []byte
	compiled   string
}, err error) {
	if m.compiled, err = built.Modules("e2e"); err != nil {
		return m, err
	}
	dir, err := os.MkdirTemp("", "greeter")
	if err != nil {
		return m, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "one")
	if err := built.Binary(path, "github.com/conduit-agent/conduit/plugins/processor/wasm/testdata/sdk", "GOOS=wasip1",
		"GOARCH=wasm", "CGO_ENABLED=0"); err != nil {
		return m, err
	}
	if m.one, err = os.ReadFile(path); err != nil {
		return m, err
	}
	m.other = append(slices.Clone(m.one), 0, 2, 1, 'x') // a custom section
	for _, content := range [][]byte{m.one, m.other} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return m, err
		}
		if err := compile(dir, m.compiled); err != nil {
			return m, err
		}
	}
	return m, nil
})

// compile compiles the module of a directory.
func compile(dir, cache string) error {
	ctx := context.Background()
	modules := wasm.New(wasm.Options{Dir: dir, CacheDir: cache, Memory: 512 << 20, SpecifyTimeout: wait.Limit})
	modules.Rescan(ctx)
	if err := modules.Close(ctx); err != nil || len(modules.Plugins()) != 1 {
		return fmt.Errorf("cannot compile the module: %w, %v", err, modules.Problems())
	}
	return nil
}

// buildModule returns the greeter, and puts its compiled code into the directory of an agent.
func buildModule(t *testing.T, dir string) (one, other []byte) {
	t.Helper()
	m, err := greeter()
	if err == nil {
		err = os.CopyFS(filepath.Join(dir, "conduit.db.modules"), os.DirFS(m.compiled))
	}
	if err != nil {
		t.Fatal(err)
	}
	return m.one, m.other
}

// rawsIn returns the raw payloads that begin with the prefix in a file of records.
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

// said returns the problems of pipeline p and its file.
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

// A module that is added to processors.path while the agent runs is available at once, with several concurrent
// instances, and is validated like every processor.
func TestModuleIsFoundWhileTheAgentRuns(t *testing.T) {
	go func() { _, _ = greeter() }() // so that it is ready when parallel tests begin
	load.Parallel(t, load.Agent)
	dir := agenttest.NewDir(t)
	module, _ := buildModule(t, dir)
	a := agenttest.Start(t, dir)
	text := func(setting string) string {
		return fmt.Sprintf(`version: "2.2"
pipelines:
  - id: p
    status: running
    processors:
      - {id: greet, plugin: standalone:with-sdk, workers: 2, settings: {%s}}
    connectors:
      - {id: src, type: source, plugin: builtin:generator, settings: {rate: 200, format.type: raw,
         format.options.n: int}}
      - {id: dst, type: destination, plugin: builtin:file, settings: {path: %s/p.jsonl}}
`, setting, dir)
	}
	a.Save("p.yaml", text(`prefix: "hi:"`))
	a.Wait("the pipeline waits for its processor", func() bool {
		return strings.Contains(said(t, a), "cannot find processor")
	})
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
	// The module is replaced while records flow.
	a.Save("p.yaml", text(`prefix: "ho:"`))
	a.Wait("records pass the module with the other setting", func() bool {
		return len(rawsIn(t, a.Path("p.jsonl"), "ho:")) > 10
	})
	a.Save("p.yaml", text(`count: none`))
	a.Wait("a setting that is wrong is refused", func() bool { return strings.Contains(said(t, a), "count") })
	if s := a.State("p"); s.Phase != spec.PhaseRunning {
		t.Errorf("the pipeline is %v", s)
	}
}

// Pipelines that run a replaced module are shown, until a restart.
func TestModuleThatIsReplaced(t *testing.T) {
	load.Parallel(t, load.Agent)
	dir := agenttest.NewDir(t)
	module, other := buildModule(t, dir)
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
	w := agenttest.StartWeb(t, dir)
	shown := func() (c spec.Condition) {
		s, err := w.API.Status(t.Context(), "p")
		if err == nil {
			c = s.Conditions[slices.IndexFunc(s.Conditions, func(c spec.Condition) bool {
				return c.Type == spec.ConditionPlugin
			})]
		}
		return c
	}
	w.Save("p.yaml", fmt.Sprintf(`version: "2.2"
pipelines:
  - id: p
    status: running
    connectors:
      - {id: src, type: source, plugin: builtin:generator, settings: {rate: 200, format.type: raw,
         format.options.n: int}}
      - {id: dst, type: destination, plugin: builtin:file, settings: {path: %s/p.jsonl}, processors: [{id: greet,
         plugin: with-sdk, workers: 2}]}
`, dir))
	w.Wait("records pass the module", func() bool { return len(rawsIn(t, w.Path("p.jsonl"), "hello,")) > 10 })
	if c := shown(); c.Status != spec.ConditionFalse {
		t.Errorf("before it is replaced: %+v", c)
	}
	install(other)
	w.Wait("the condition", func() bool {
		c := shown()
		return c.Status == spec.ConditionTrue && c.Reason == "PluginReplaced"
	})
	if c := shown(); c.Message != "a restart would use the new file "+path+": conduit pipelines restart p" {
		t.Errorf("it is shown as %+v", c)
	}
	w.Wait("one event", func() bool {
		events, err := w.API.Events(t.Context(), -1, 1)
		return err == nil && events[0].Pipeline == "p" && events[0].Reason == "PluginReplaced"
	})
	n := len(rawsIn(t, w.Path("p.jsonl"), "hello,"))
	w.Wait("more records", func() bool { return len(rawsIn(t, w.Path("p.jsonl"), "hello,")) > n+20 })
	w.Must("POST", "/v1/pipelines/p/restart", "", nil)
	w.Wait("the condition to end", func() bool {
		c := shown()
		return c.Status == spec.ConditionFalse && c.Reason == "NotChanged"
	})
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	w.Wait("that it is gone", func() bool { return shown().Reason == "PluginGone" })
}
