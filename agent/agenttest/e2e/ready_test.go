package e2e_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conduit-agent/conduit/agent"
	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/parts"
	"github.com/conduit-agent/conduit/agent/reference"
)

// onePipeline returns the settings of an agent with one pipeline and without an API.
func onePipeline(t *testing.T) config.Config {
	t.Helper()
	cfg, _, err := config.Load(config.Sources{Path: os.DevNull})
	if err != nil {
		t.Fatal(err)
	}
	dir := agenttest.NewDir(t)
	cfg.DB.SQLite.Path, cfg.Pipelines.Path, cfg.Connectors.Path = filepath.Join(dir, "conduit.db"),
		filepath.Join(dir, "pipelines"), filepath.Join(dir, "connectors")
	cfg.API.Enabled = false
	file := []byte(agenttest.Generated(dir, "p", 1, ""))
	if err := os.WriteFile(filepath.Join(dir, "pipelines", "p.yaml"), file, 0o600); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// An agent that cannot save its observed state is not ready until it can.
func TestNotReadyWhileNothingCanBeSaved(t *testing.T) {
	cfg := onePipeline(t)
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		sim := (&world{lives: map[string]*lifetime{}}).boot().simulation()
		sim.Write = func(change func() error) error {
			if full.Load() {
				return errors.New("disk full")
			}
			return change()
		}
		ctx, end := context.WithCancel(t.Context())
		up, ended := make(chan *agent.Agent, 1), make(chan error, 1)
		go func() {
			ended <- runIn(ctx, agent.Options{Config: cfg, Plugins: parts.Plugins(),
				References: reference.Kinds(), Cluster: parts.Cluster(),
				Log: slog.New(slog.DiscardHandler), Started: func(a *agent.Agent) { up <- a }}, sim)
		}()
		a := <-up
		ready := func(want bool) {
			t.Helper()
			time.Sleep(3 * time.Second)
			synctest.Wait()
			if err := a.Ready(ctx); (err == nil) != want {
				t.Errorf("ready: %v, want %v", err, want)
			}
		}
		ready(true)
		full.Store(true)
		if err := a.Loop.Restart(ctx, "p"); err != nil {
			t.Error(err)
		}
		ready(false)
		ready(false)
		full.Store(false)
		ready(true)
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
