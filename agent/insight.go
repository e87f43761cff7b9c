package agent

import (
	"cmp"
	"context"
	"os"
	"path/filepath"

	"github.com/conduit-agent/conduit/agent/deadletters"
	"github.com/conduit-agent/conduit/agent/host"
	"github.com/conduit-agent/conduit/agent/reference"
	"github.com/conduit-agent/conduit/api/resource"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
	"github.com/conduit-agent/conduit/spec/secret"
)

// insight is what pages show in addition to pipelines.
func (a *Agent) insight() resource.Insight {
	return resource.Insight{
		Agent:    a.describe,
		Memory:   a.memory,
		Check:    func(ctx context.Context, p *spec.Pipeline) []spec.Problem { return a.Catalog.Check(ctx, p) },
		ReadFile: a.readPipelineFile,
	}
}

// describe returns what the agent says of itself.
func (a *Agent) describe(context.Context) (rest.Agent, error) {
	d := a.facts(cmp.Or(a.Store.InPlace(), a.Store.Fault()))
	stored := host.Store(deadletters.PathOf(d.Store.Path), a.deadLetters.Fault())
	d.DeadLetters, d.Memory.Records = &stored, a.memory()
	return d, nil
}

// facts describes the agent, with what is wrong with its store.
func (a *Agent) facts(problem error) rest.Agent {
	c := &a.options.Config
	d := host.Process()
	d.Version, d.StartedAt, d.Address = a.options.Version, a.started, a.address
	d.Store = host.Store(c.DB.SQLite.Path, problem)
	d.Memory.Limit = host.MemoryLimitOf(c.Memory.Limit)
	d.Settings = []rest.Setting{}
	for _, s := range c.Effective {
		one := rest.Setting{Name: s.Key, Value: s.Value, Origin: s.Origin}
		if secret.Is(s.Key, s.Value) && filepath.Base(s.Value) == s.Value {
			one.Value = rest.Redacted // a path says where a secret is, anything else could be one
		}
		d.Settings = append(d.Settings, one)
	}
	return d
}

// readPipelineFile returns the content of a pipeline file, which the watcher follows.
func (a *Agent) readPipelineFile(path string) ([]byte, error) {
	at := a.options.Config.Pipelines.Path
	if info, err := os.Stat(at); err != nil || info.IsDir() {
		at = filepath.Join(at, filepath.FromSlash(path))
	}
	content, err := reference.ReadFile(at)
	return []byte(content), err
}

// memory returns how much of the memory for records is used.
func (a *Agent) memory() rest.RecordMemory {
	use := a.Runner.Window.Shared.Use()
	return rest.RecordMemory{Bytes: use.Bytes, Used: use.Used, Waiting: use.Waiting}
}
