//go:build linux && (amd64 || arm64)

package sweeps_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent"
	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/faults"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/parts"
	"github.com/conduit-agent/conduit/agent/reference"
	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// childVariable, when set, makes the test binary an agent in this directory.
const childVariable = "CONDUIT_TEST_SWEEP"

func TestMain(m *testing.M) {
	agenttest.Child(childVariable, runAgent)
	os.Exit(m.Run())
}

// runAgent runs an agent with all files in root/agent, and writes its API address to root/address.
func runAgent(ctx context.Context, root string) error {
	if err := faults.Join(); err != nil {
		return err
	}
	cfg, _, err := config.Load(config.Sources{})
	if err != nil {
		return err
	}
	dir := filepath.Join(root, "agent")
	cfg.DB.SQLite.Path = filepath.Join(dir, "conduit.db")
	cfg.Pipelines.Path = filepath.Join(dir, "pipelines")
	cfg.Pipelines.Confirm = 50 * time.Millisecond
	cfg.Pipelines.ErrorRecovery.MinDelay = 20 * time.Millisecond
	cfg.Connectors.Path = filepath.Join(dir, "connectors")
	cfg.Processors.Path = filepath.Join(dir, "processors")
	cfg.API.HTTP.Address = "127.0.0.1:0"
	started := func(a *agent.Agent) {
		if err := os.WriteFile(filepath.Join(root, "address"), []byte(a.Address()+"\n"), 0o600); err != nil {
			panic(err)
		}
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	return agent.Run(ctx, agent.Options{Config: cfg, Plugins: parts.Plugins(),
		References: reference.Kinds(), Cluster: parts.Cluster(), Log: log,
		Wired: agenttest.Unlimited, Started: started})
}

// process is an agent in a separate process.
type process struct {
	cmd   *exec.Cmd
	log   wait.Buffer
	ended chan struct{} // closed when it ended with err
	err   error
	api   *client.Client // nil until it is up
}

// start starts an agent in root. It calls watch before, unless watch is nil.
func start(t *testing.T, root string, watch func(*process)) *process {
	t.Helper()
	_ = os.Remove(filepath.Join(root, "address"))
	p := &process{cmd: exec.Command(os.Args[0]), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), childVariable+"="+root)
	p.cmd.Stderr = &p.log
	if watch != nil {
		watch(p)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		p.err = p.cmd.Wait()
	}()
	t.Cleanup(p.kill)
	return p
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// describe returns the status and the log of the agent.
func (p *process) describe() string {
	text := p.log.String()
	if p.api != nil {
		statuses, err := p.api.Statuses(context.Background())
		text += fmt.Sprintf("%+v %v", statuses, err)
	}
	return text
}

func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// await waits until done returns true, and returns false if the process ends before.
func (p *process) await(t *testing.T, what string, done func() bool) bool {
	t.Helper()
	ended := false
	wait.For(t, what, func() bool {
		ended = p.hasEnded() // before done: the last actions of the process count
		return done() || ended
	}, p.describe)
	return !ended
}

// up waits until the API answers, and returns false if the process ends before.
func (p *process) up(t *testing.T, root string) bool {
	t.Helper()
	return p.await(t, "the API", func() bool {
		text, err := os.ReadFile(filepath.Join(root, "address"))
		if err != nil || !strings.HasSuffix(string(text), "\n") {
			return false
		}
		p.api = &client.Client{URL: "http://" + strings.TrimSpace(string(text))}
		_, err = p.api.Info(t.Context())
		return err == nil
	})
}

// stop ends the agent gracefully and returns its error.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	<-p.ended
	if p.err != nil {
		return fmt.Errorf("%w\n%s", p.err, p.log.String())
	}
	return nil
}
