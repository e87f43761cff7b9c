// Package agenttest runs a whole agent inside a test, in a separate directory.
package agenttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/parts"
	"github.com/conduit-agent/conduit/agent/reference"
	"github.com/conduit-agent/conduit/agent/store"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/spec"
)

// Agent is an agent under test.
type Agent struct {
	*agent.Agent
	Dir string // contains pipelines/, conduit.db and files of the test

	t    testing.TB
	log  *wait.Buffer
	stop context.CancelFunc
	err  chan error
}

// Start starts an agent in dir, or in a new directory when dir is empty. change may
// alter its settings. The agent is stopped when the test ends, if not before.
func Start(t testing.TB, dir string, change ...func(*config.Config)) *Agent {
	t.Helper()
	return StartWired(t, dir, func(*agent.Agent) {}, change...)
}

// StartWired is Start for an agent whose parts are changed by wired before they run.
func StartWired(t testing.TB, dir string, wired func(*agent.Agent), change ...func(*config.Config)) *Agent {
	t.Helper()
	return StartWith(t, dir, func(o *agent.Options) {
		usual := o.Wired
		o.Wired = func(a *agent.Agent) {
			usual(a)
			wired(a)
		}
	}, change...)
}

// StartWith is Start for an agent whose options, besides its settings, are changed by with.
func StartWith(t testing.TB, dir string, with func(*agent.Options), change ...func(*config.Config)) *Agent {
	t.Helper()
	if dir == "" {
		dir = NewDir(t)
		emptyStore(t, dir)
	}
	cfg, _, err := config.Load(config.Sources{Path: emptyFile(t, dir)})
	if err != nil {
		t.Fatal(err)
	}
	cfg.DB.SQLite.Path = filepath.Join(dir, "conduit.db")
	cfg.Pipelines.Path = filepath.Join(dir, "pipelines")
	cfg.Connectors.Path = filepath.Join(dir, "connectors")
	cfg.Processors.Path = filepath.Join(dir, "processors")
	cfg.Pipelines.ErrorRecovery.MinDelay = 20 * time.Millisecond
	cfg.API.HTTP.Address = "127.0.0.1:0"
	for _, f := range change {
		f(&cfg)
	}
	a := &Agent{Dir: dir, t: t, log: &wait.Buffer{}, err: make(chan error, 1)}
	ctx, stop := context.WithCancel(context.Background())
	a.stop = stop
	started := make(chan *agent.Agent, 1)
	log := slog.New(slog.NewJSONHandler(a.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	options := agent.Options{Config: cfg, Plugins: parts.Plugins(), References: reference.Kinds(),
		Cluster: parts.Cluster(), Profiles: parts.Profiles(), Isolate: parts.Isolate, Exporter: parts.Exporter, Log: log,
		Wired: func(a *agent.Agent) {
			Unlimited(a)
			a.StatusFiles.Pause = 20 * time.Millisecond
		}, Started: func(up *agent.Agent) { started <- up }}
	with(&options)
	go func() { a.err <- agent.Run(ctx, options) }()
	select {
	case a.Agent = <-started:
	case err := <-a.err:
		stop()
		t.Fatalf("agent did not start: %v", err)
	case <-time.After(wait.Limit):
		t.Fatalf("the agent has not started within %v:\n%s", wait.Limit, stacks())
	}
	t.Cleanup(func() {
		a.Stop()
		if t.Failed() {
			t.Logf("log of the agent:\n%s", a.Log())
		}
	})
	return a
}

// Unlimited lifts the limit on changes of pipelines.
func Unlimited(a *agent.Agent) { a.Loop.Policy.MaxChanges = 0 }

// NewDir returns a directory for an agent, with an empty pipelines directory in it.
func NewDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "pipelines"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// emptyStore puts an empty store, which an agent closed, into dir. Creating the tables in a new store takes a third of
// the CPU time of an agent without pipelines.
func emptyStore(t testing.TB, dir string) {
	t.Helper()
	files, err := storeFiles()
	for name, content := range files {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), content, 0o600)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// storeFiles returns the files of an empty store by name.
var storeFiles = sync.OnceValues(func() (map[string][]byte, error) {
	dir, err := os.MkdirTemp("", "conduit-store-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	db, err := store.Open(context.Background(), filepath.Join(dir, "conduit.db"))
	if err == nil {
		err = db.Close()
	}
	entries, listed := os.ReadDir(dir)
	err = errors.Join(err, listed)
	files := map[string][]byte{}
	for _, e := range entries {
		content, failed := os.ReadFile(filepath.Join(dir, e.Name()))
		files[e.Name()], err = content, errors.Join(err, failed)
	}
	return files, err
})

// emptyFile hides the settings file of the working directory from the test.
func emptyFile(t testing.TB, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "conduit.yaml")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Stop shuts the agent down gracefully and fails the test on an error.
func (a *Agent) Stop() {
	a.t.Helper()
	a.stop()
	if a.err == nil {
		return
	}
	select {
	case err := <-a.err:
		a.err = nil
		if err != nil {
			a.t.Errorf("agent ended with: %v", err)
		}
	case <-time.After(wait.Limit):
		a.t.Fatalf("the agent has not ended within %v:\n%s", wait.Limit, stacks())
	}
}

// stacks returns the stacks of all goroutines.
func stacks() string {
	var text strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&text, 2)
	return text.String()
}

// Log returns the log of the agent so far, one JSON object per line.
func (a *Agent) Log() string { return a.log.String() }

// Path returns the path of a file in the agent's directory.
func (a *Agent) Path(name string) string { return filepath.Join(a.Dir, name) }

// Save saves a pipeline file as most tools do: it writes a file next to it and renames that file.
func (a *Agent) Save(name, content string) {
	a.t.Helper()
	path := a.Path(filepath.Join("pipelines", name))
	if err := os.WriteFile(path+".tmp", []byte(content), 0o644); err != nil {
		a.t.Fatal(err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		a.t.Fatal(err)
	}
}

// State returns the observed state of a pipeline, the zero State if there is none.
func (a *Agent) State(id string) spec.State {
	for _, s := range a.Loop.Snapshot() {
		if s.PipelineID == id {
			return s
		}
	}
	return spec.State{}
}

// WaitPhase waits until the pipeline is in the phase, running the given generation if
// that is not 0.
func (a *Agent) WaitPhase(id string, phase spec.Phase, generation int64) {
	a.t.Helper()
	a.Wait(fmt.Sprintf("pipeline %s %s at generation %d", id, phase, generation), func() bool {
		s := a.State(id)
		return s.Phase == phase && (generation == 0 || s.RunningGeneration == generation)
	})
}

// Wait waits until done returns true, and fails the test if that takes too long.
func (a *Agent) Wait(what string, done func() bool) {
	a.t.Helper()
	wait.For(a.t, what, done, func() string {
		states, _ := json.Marshal(a.Loop.Snapshot())
		return "states: " + string(states)
	})
}
