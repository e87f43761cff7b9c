package agent

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/conduit-agent/conduit/agent/deadletter"
	"github.com/conduit-agent/conduit/agent/engine/backpressure"
	"github.com/conduit-agent/conduit/agent/process"
	"github.com/conduit-agent/conduit/agent/reference"
	"github.com/conduit-agent/conduit/agent/sqlitefile"
	"github.com/conduit-agent/conduit/api"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

// insight is data that pages show in addition to pipelines.
func (a *Agent) insight() api.Insight {
	return api.Insight{
		Agent:    a.describe,
		Memory:   memory(a.Runner.Window.Shared),
		Check:    func(ctx context.Context, p *spec.Pipeline) []spec.Problem { return a.Catalog.Check(ctx, p) },
		ReadFile: pipelineFile(a.options.Config.Pipelines.Path),
	}
}

// describe returns the description of the agent.
func (a *Agent) describe(context.Context) (rest.Agent, error) {
	d := a.facts(cmp.Or(a.Store.InPlace(), a.Store.Fault()))
	stored := describeStore(deadletter.PathOf(d.Store.Path), a.ownDeadLetters.Fault())
	d.DeadLetters, d.Memory.Records = &stored, memory(a.Runner.Window.Shared)()
	return d, nil
}

// facts describes the agent, including the problem with its store.
func (a *Agent) facts(problem error) rest.Agent {
	c := &a.options.Config
	p := process.Describe()
	d := rest.Agent{
		Version: a.options.Version, OS: runtime.GOOS, Arch: runtime.GOARCH, Host: p.Host, PID: os.Getpid(),
		StartedAt: a.started, Address: a.address, Unit: p.Unit, Goroutines: p.Goroutines,
		Memory:   rest.Memory{Resident: p.Resident, Limit: process.MemoryLimitOf(c.Memory.Limit)},
		Store:    describeStore(c.DB.SQLite.Path, problem),
		Settings: []rest.Setting{},
	}
	for _, s := range c.Effective {
		one := rest.Setting{Name: s.Key, Value: s.Value, Origin: s.Origin}
		if s.Secret() {
			one.Value = spec.Redacted
		}
		d.Settings = append(d.Settings, one)
	}
	return d
}

// describeStore describes the store at path and its file system. problem is the problem with the store, nil for none.
func describeStore(path string, problem error) rest.Store {
	s := rest.Store{Path: path}
	if info, err := os.Stat(path); err == nil {
		s.Bytes = info.Size()
	}
	if info, err := os.Stat(path + "-wal"); err == nil {
		s.WALBytes = info.Size()
	}
	var fs syscall.Statfs_t
	if syscall.Statfs(path, &fs) == nil {
		s.DiskFree, s.DiskTotal = int64(fs.Bavail)*int64(fs.Bsize), int64(fs.Blocks)*int64(fs.Bsize)
	}
	s.FileSystem, _ = sqlitefile.FileSystem(path)
	if problem != nil {
		s.Problem = strings.TrimSpace(problem.Error())
	}
	return s
}

// pipelineFile returns a function that returns the content of a file in the directory of pipelines. at may also be the
// path of a single file.
func pipelineFile(at string) func(path string) ([]byte, error) {
	return func(path string) ([]byte, error) {
		file := at
		if info, err := os.Stat(at); err != nil || info.IsDir() {
			file = filepath.Join(at, filepath.FromSlash(path))
		}
		content, err := reference.ReadFile(file)
		return []byte(content), err
	}
}

// memory returns a function that reports the use of the memory for records.
func memory(shared *backpressure.Shared) func() spec.RecordMemory {
	return func() spec.RecordMemory {
		use := shared.Use()
		by := spec.MemoryUses{Sources: use.Sources, Inspectors: use.Parts[backpressure.Inspectors],
			Spools:  use.Parts[backpressure.Spools],
			Clients: use.Parts[backpressure.Clients], DeadLetters: use.Parts[backpressure.DeadLetters]}
		m := spec.RecordMemory{Bytes: use.Bytes, Used: by.Sources, Waiting: use.Waiting, By: by}
		if shared.Strict {
			m.Used += by.Inspectors + by.Spools + by.Clients + by.DeadLetters
		}
		return m
	}
}
