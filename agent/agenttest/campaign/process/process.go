// Package process runs agents in separate processes, which tests can kill, and checks their output files.
package process

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent"
	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/parts"
	"github.com/conduit-agent/conduit/agent/process"
	"github.com/conduit-agent/conduit/agent/reference"
	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// Client returns a client of the agent that writes its address to the file.
func Client(t *testing.T, path string) *client.Client {
	t.Helper()
	var b []byte
	wait.For(t, "an address in "+path, func() bool {
		b, _ = os.ReadFile(path)
		return bytes.HasSuffix(b, []byte("\n"))
	})
	return &client.Client{URL: "http://" + string(bytes.TrimSpace(b))}
}

// dirVariable, when set, turns the test binary into an agent with its files in that directory.
const dirVariable = "CONDUIT_TEST_AGENT_DIR"

// AddressFile is the variable that names the file to which the agent writes the address of the API.
const AddressFile = "CONDUIT_TEST_ADDRESS_FILE"

// MemoryLimit is the variable with the setting memory.limit of the agent.
const MemoryLimit = "CONDUIT_TEST_MEMORY_LIMIT"

// MaxDelay is the variable with the longest delay before the agent restarts a failed pipeline.
const MaxDelay = "CONDUIT_TEST_MAX_DELAY"

// NoEvents is the variable that makes the agent set its limit of inotify instances to 0, so that it gets no file system
// events.
const NoEvents = "CONDUIT_TEST_NO_EVENTS"

// Serve makes the test binary an agent when Start or Try started it, until SIGTERM, as the binary does, and returns
// otherwise. A TestMain calls it first.
func Serve() { agenttest.Child(dirVariable, run) }

func run(ctx context.Context, dir string) error {
	if os.Getenv(NoEvents) != "" {
		if err := os.WriteFile("/proc/sys/user/max_inotify_instances", []byte("0"), 0); err != nil {
			return err
		}
	}
	cfg, _, err := config.Load(config.Sources{})
	if err != nil {
		return err
	}
	cfg.DB.SQLite.Path = filepath.Join(dir, "conduit.db")
	cfg.Pipelines.Path = filepath.Join(dir, "pipelines")
	cfg.Connectors.Path = filepath.Join(dir, "connectors")
	cfg.API.HTTP.Address = "127.0.0.1:0"
	if limit, err := strconv.Atoi(os.Getenv(MemoryLimit)); err == nil {
		cfg.Memory.Limit = limit
		process.LimitMemory(process.MemoryLimitOf(limit))
	}
	if most, err := time.ParseDuration(os.Getenv(MaxDelay)); err == nil {
		cfg.Pipelines.ErrorRecovery.MaxDelay = most
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	started := func(a *agent.Agent) {
		if path := os.Getenv(AddressFile); path != "" {
			if err := os.WriteFile(path, []byte(a.Address()+"\n"), 0o600); err != nil {
				panic(err)
			}
		}
	}
	return agent.Run(ctx, agent.Options{Config: cfg, Plugins: parts.Plugins(),
		References: reference.Kinds(), Cluster: parts.Cluster(), Isolate: parts.Isolate, Log: log,
		Wired: agenttest.Unlimited, Started: started})
}

// Process is an agent in a separate process.
type Process struct {
	Cmd *exec.Cmd
	Log wait.Buffer
}

// Start starts an agent in dir, which has a directory pipelines, with variables of the environment.
func Start(t *testing.T, dir string, env ...string) *Process {
	t.Helper()
	p, err := Try(dir, nil, env...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// New returns an agent in dir that is not started yet.
func New(dir string, env ...string) *Process {
	p := &Process{Cmd: exec.Command(os.Args[0])}
	p.Cmd.Env = append(append(os.Environ(), dirVariable+"="+dir), env...)
	p.Cmd.Stderr = &p.Log
	return p
}

// Try is Start with attributes of the process, which may not be permitted.
func Try(dir string, attr *syscall.SysProcAttr, env ...string) (*Process, error) {
	p := New(dir, env...)
	p.Cmd.SysProcAttr = attr
	return p, p.Cmd.Start()
}

// Kill ends the agent with SIGKILL.
func (p *Process) Kill() {
	_ = p.Cmd.Process.Kill()
	_ = p.Cmd.Wait()
}

// Terminate ends the agent with SIGTERM. The test fails unless it exits without an error.
func (p *Process) Terminate(t *testing.T) {
	t.Helper()
	_ = p.Cmd.Process.Signal(syscall.SIGTERM)
	if err := p.Cmd.Wait(); err != nil {
		t.Fatalf("agent did not end well: %v\n%s", err, p.Log.String())
	}
}

// WritePipelines creates the directory of an agent's pipeline files, with one file.
func WritePipelines(t *testing.T, dir, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, "pipelines"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "pipelines", "p.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// WaitGrowth waits until all files are larger than at the time of the call.
func (p *Process) WaitGrowth(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		before := agenttest.FileSize(path)
		p.WaitFor(t, path+" to grow", func() bool { return agenttest.FileSize(path) > before })
	}
}

// AwaitBytes waits until a file has grown by the given number of bytes. It polls without a pause, so that it returns
// while the agent is busy.
func (p *Process) AwaitBytes(t *testing.T, path string, more int64) {
	t.Helper()
	p.AwaitSize(t, path, agenttest.FileSize(path)+more)
}

// AwaitSize waits until a file has the given size in bytes.
func (p *Process) AwaitSize(t *testing.T, path string, bytes int64) {
	t.Helper()
	for deadline := time.Now().Add(wait.Limit); agenttest.FileSize(path) < bytes; runtime.Gosched() {
		if time.Now().After(deadline) {
			p.Kill()
			t.Fatalf("%s has only %d of %d bytes\n%s", path, agenttest.FileSize(path), bytes, p.Log.String())
		}
	}
}

// WaitFor waits until done returns true. If that takes too long, it ends the agent and fails the test with the log.
func (p *Process) WaitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	wait.For(t, what, done, func() string {
		p.Kill()
		return p.Log.String()
	})
}
