// Package cluster_test runs clusters of real agents, each in a separate process, against real NATS servers.
package cluster_test

import (
	"context"
	"encoding/json"
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
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/browser"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/parts"
	"github.com/conduit-agent/conduit/agent/reference"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// memberConfig, when set, makes the test binary an agent with these settings.
const memberConfig = "CONDUIT_CLUSTER_MEMBER"

func TestMain(m *testing.M) {
	agenttest.Child(memberConfig, runMember)
	os.Exit(browser.Run(m))
}

func runMember(ctx context.Context, text string) error {
	var cfg config.Config
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	return agent.Run(ctx, agent.Options{Config: cfg, Plugins: parts.Plugins(),
		References: reference.Kinds(), Cluster: parts.Cluster(), Log: log,
		Wired: agenttest.Unlimited})
}

// member is an agent in a separate process.
type member struct {
	t      *testing.T
	name   string
	config config.Config
	cmd    *exec.Cmd
	log    *wait.Buffer
	before int             // bytes that earlier processes logged
	join   func(*exec.Cmd) // when set, is called before the process is started
}

// newMember makes a member that reads its pipelines from a shared directory. The URLs are those of NATS or of a
// PostgreSQL.
func newMember(t *testing.T, name, pipelines, urls string, ttl time.Duration) *member {
	t.Helper()
	cfg, _, err := config.Load(config.Sources{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cfg.DB.SQLite.Path = filepath.Join(dir, "conduit.db")
	cfg.Pipelines.Path = pipelines
	cfg.Connectors.Path = filepath.Join(dir, "connectors")
	cfg.Processors.Path = filepath.Join(dir, "processors")
	cfg.Pipelines.ErrorRecovery.MinDelay = 50 * time.Millisecond
	cfg.Pipelines.ErrorRecovery.MaxDelay = time.Second
	cfg.API.HTTP.Address = "127.0.0.1:0"
	cfg.Cluster = config.Cluster{Name: "test", Member: name, Capacity: 1, TTL: ttl, Keep: time.Hour,
		NATS: config.NATS{URL: urls, Replicas: strings.Count(urls, ",") + 1}}
	if strings.HasPrefix(urls, "postgres:") {
		cfg.Cluster.NATS, cfg.Cluster.Postgres.URL = config.NATS{}, urls
	}
	m := &member{t: t, name: name, config: cfg, log: &wait.Buffer{}}
	t.Cleanup(func() {
		m.kill()
		if t.Failed() {
			t.Logf("log of %s:\n%s", name, m.log)
		}
	})
	return m
}

func (m *member) start() {
	m.t.Helper()
	text, err := json.Marshal(m.config)
	if err != nil {
		m.t.Fatal(err)
	}
	m.before = len(m.log.String())
	m.cmd = exec.Command(os.Args[0])
	m.cmd.Env = append(os.Environ(), memberConfig+"="+string(text))
	m.cmd.Stderr, m.cmd.Stdout = m.log, m.log
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if m.join != nil {
		m.join(m.cmd)
	}
	if err := m.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
}

// awaitLog waits until the running process has logged a line with text.
func (m *member) awaitLog(text string) {
	m.t.Helper()
	wait.For(m.t, fmt.Sprintf("%s to log %q", m.name, text), func() bool {
		return strings.Contains(m.log.String()[m.before:], text)
	})
}

// kill ends the process with SIGKILL.
func (m *member) kill() { m.end(syscall.SIGKILL) }

// stop stops the process gracefully.
func (m *member) stop() { m.end(syscall.SIGTERM) }

func (m *member) end(signal syscall.Signal) {
	if m.cmd == nil {
		return
	}
	_ = m.cmd.Process.Signal(signal)
	_ = m.cmd.Wait()
	m.cmd = nil
}

// signal sends a signal to the process.
func (m *member) signal(s syscall.Signal) { _ = m.cmd.Process.Signal(s) }
