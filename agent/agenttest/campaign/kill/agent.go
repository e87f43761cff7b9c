package kill

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent"
	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/agent/parts"
	"github.com/conduit-agent/conduit/agent/reference"
	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// agentDir, when set, makes the test binary an agent in that directory.
const agentDir = "CONDUIT_KILL_AGENT_DIR"

// Main runs the tests, or the agent that they started. TestMain only calls Main.
func Main(m *testing.M) {
	agenttest.Child(agentDir, runAgent)
	wait.CollectLess()
	os.Exit(m.Run())
}

// runAgent runs an agent until ctx ends, as the binary does.
func runAgent(ctx context.Context, dir string) error {
	cfg, _, err := config.Load(config.Sources{})
	if err != nil {
		return err
	}
	cfg.DB.SQLite.Path = filepath.Join(dir, "conduit.db")
	cfg.Pipelines.Path = filepath.Join(dir, "pipelines")
	cfg.Connectors.Path = filepath.Join(dir, "connectors")
	cfg.Processors.Path = filepath.Join(dir, "processors")
	cfg.Connectors.Exec.Enabled = true
	cfg.Pipelines.ErrorRecovery.MinDelay = 50 * time.Millisecond
	cfg.Pipelines.ErrorRecovery.MaxDelay = time.Second
	cfg.API.HTTP.Address = "127.0.0.1:0"
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	started := func(a *agent.Agent) { _ = os.WriteFile(upFile(dir), []byte(a.Address()), 0o600) }
	return agent.Run(ctx, agent.Options{Config: cfg, Plugins: parts.Plugins(),
		References: reference.Kinds(), Cluster: parts.Cluster(), Isolate: parts.Isolate, Log: log,
		Wired: agenttest.Unlimited, Started: started})
}

// upFile exists once the agent is up and handles signals. It has the address of the API.
func upFile(dir string) string { return filepath.Join(dir, "up") }

// process is the agent of a flow, in a separate process.
type process struct {
	dir string
	cmd *exec.Cmd
	log tailBuffer
}

func (p *process) start() error {
	_ = os.Remove(upFile(p.dir))
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), agentDir+"="+p.dir)
	p.cmd.Dir = p.dir
	p.cmd.Stderr = &p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return p.cmd.Start()
}

func (p *process) kill() {
	if p.cmd == nil || p.cmd.Process == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func (p *process) terminate() error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	wait.Until(ctx, func() bool { _, err := os.Stat(upFile(p.dir)); return err == nil })
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("the agent did not end well: %w", err)
	}
	return nil
}

// api returns a client of the agent, whose calls fail while the agent is down.
func (p *process) api() *client.Client {
	address, _ := os.ReadFile(upFile(p.dir))
	return &client.Client{URL: "http://" + string(address)}
}

func (p *process) tail() []byte { return p.log.bytes() }

// tailBuffer keeps the end of the data written to it.
type tailBuffer struct {
	mu  sync.Mutex
	buf []byte
}

const tailBytes = 8 << 10

// Write appends b.
func (t *tailBuffer) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if over := len(t.buf) - tailBytes; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(b), nil
}

func (t *tailBuffer) bytes() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Clone(t.buf)
}

// Line is a record as the file destination wrote it.
type Line struct {
	Position  []byte            `json:"position"`
	Operation string            `json:"operation"`
	Metadata  map[string]string `json:"metadata"`
	Key       json.RawMessage   `json:"key"`
	Payload   struct {
		Before, After json.RawMessage
	} `json:"payload"`
}

// Decode decodes the payload after the change, also when it is raw and holds JSON.
func (l *Line) Decode(into any) error {
	after := l.Payload.After
	if len(after) > 0 && after[0] == '"' {
		var raw []byte
		if err := json.Unmarshal(after, &raw); err != nil {
			return err
		}
		after = raw
	}
	return json.Unmarshal(after, into)
}

// lines reads the numbers of the records in a file that grows.
type lines struct {
	path   string
	number func(*Line) (int, error)
	at     int64 // offset behind the numbers that were read
	all    []int
}

// read returns the numbers of all records. It skips lines that a kill tore.
func (f *lines) read(context.Context) ([]int, error) {
	file, err := os.Open(f.path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.NewSectionReader(file, f.at, 1<<40))
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(content[:bytes.LastIndexByte(content, '\n')+1]) {
		f.at += int64(len(line))
		var l Line
		if err := json.Unmarshal(line, &l); err != nil {
			continue
		}
		n, err := f.number(&l)
		if err != nil {
			return nil, err
		}
		f.all = append(f.all, n)
	}
	return f.all, nil
}

// appendLines appends a line for each number in one write.
func appendLines(path string, first, n int) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	var lines []byte
	for i := first; i < first+n; i++ {
		lines = fmt.Appendf(lines, "{\"n\":%d,\"text\":\"record %d\"}\n", i, i)
	}
	if _, err := f.Write(lines); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
