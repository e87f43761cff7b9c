package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/processors"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/agent/engine/backpressure"
	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/builtin"
	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/spec"
)

// benchGenerator is a source of batches of the given size.
func benchGenerator(batch int) spec.Connector {
	return spec.Connector{Plugin: "builtin:generator",
		Settings: map[string]string{"rate": "0", "format.type": "structured",
			"format.options.id": "int", "format.options.name": "string", "sdk.batch.size": strconv.Itoa(batch),
			"sdk.schema.extract.payload.enabled": "false", "sdk.schema.extract.key.enabled": "false"}}
}

// benchSources are the sources that the benchmarks copy to a file, by name.
func benchSources(b *testing.B, dir string) map[string]spec.Connector {
	input := filepath.Join(dir, "input.log")
	line := append(bytes.Repeat([]byte("x"), 139), '\n')
	if err := os.WriteFile(input, bytes.Repeat(line, b.N), 0o644); err != nil {
		b.Fatal(err)
	}
	sources := map[string]spec.Connector{
		"schemas": {Plugin: "builtin:generator", Settings: map[string]string{"rate": "0", "format.type": "structured",
			"format.options.id": "int", "format.options.name": "string"}},
		"file": {Plugin: "builtin:file", Settings: map[string]string{"path": input}},
	}
	for _, batch := range []int{1, 10, 100, 1000} {
		sources[fmt.Sprint("batch=", batch)] = benchGenerator(batch)
	}
	return sources
}

// benchNames are the names of benchSources.
var benchNames = []string{"batch=1", "batch=10", "batch=100", "batch=1000", "schemas", "file"}

// BenchmarkFloor moves b.N records from a source to a file in a bare loop of reads and writes. It is the lower bound
// for any engine with a delivery guarantee.
func BenchmarkFloor(b *testing.B) {
	for _, name := range benchNames {
		b.Run(name, func(b *testing.B) {
			benchLoop(b, benchSources(b, b.TempDir())[name])
		})
	}
}

// BenchmarkPipeline moves at least b.N records between the same connectors through the engine, with positions saved in
// memory.
func BenchmarkPipeline(b *testing.B) {
	for _, name := range benchNames {
		b.Run(name, func(b *testing.B) {
			dir := b.TempDir()
			from := benchSources(b, dir)[name]
			from.ID, from.Type = "src", spec.TypeSource
			declared := &spec.Pipeline{
				ID:              "p",
				DeadLetterQueue: spec.DeadLetterQueue{Plugin: "builtin:log", WindowSize: 1},
				Connectors: []spec.Connector{from,
					{ID: "dst", Type: spec.TypeDestination, Plugin: "builtin:file",
						Settings: map[string]string{"path": filepath.Join(dir, "out"), "fsync": "false"}}},
			}
			ctx, cancel := context.WithCancel(b.Context())
			committer := &engine.Committer{Store: memory{}, CommitInterval: 50 * time.Millisecond}
			committed := make(chan error, 1)
			go func() { committed <- committer.Run(ctx) }()
			p := &engine.Pipeline{Declared: declared, Resolved: declared, Plugins: benchPlugins{benchHost()},
				Store:     memory{},
				Committer: committer, Window: backpressure.Default, Log: slog.New(slog.DiscardHandler)}
			check(b, p.Prepare(ctx))
			drain, ended := make(chan struct{}), make(chan error, 1)
			b.ReportAllocs()
			b.ResetTimer()
			used := cpuTime(b)
			go func() { ended <- p.Run(ctx, drain, func() {}) }()
			settled := &p.Stats.Destination("p:dst").Records
			wait.For(b, "all records", func() bool { return settled.Load() >= uint64(b.N) })
			b.StopTimer()
			reportRecords(b, int(settled.Load()), used)
			close(drain)
			check(b, <-ended)
			cancel()
			check(b, <-committed)
		})
	}
}

// reportRecords reports the rate of n records and the CPU time per record, where before is the CPU time used before.
// The CPU time measures the cost of the engine: in wall time, reading and writing overlap on all processors.
func reportRecords(b *testing.B, n int, before time.Duration) {
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(float64(cpuTime(b)-before)/float64(n), "cpu-ns/record")
}

func check(b testing.TB, err error) {
	if err != nil {
		b.Fatal(err)
	}
}

func benchHost() *plugins.Host {
	return &plugins.Host{Builtin: builtin.All(), Schemas: &schema.Memory{}}
}

type benchPlugins struct{ host *plugins.Host }

func (p benchPlugins) Source(ctx context.Context, plugin, id string) (connector.Source, error) {
	return p.host.Source(ctx, plugin, id)
}

func (p benchPlugins) Destination(ctx context.Context, plugin, id string) (connector.Destination, error) {
	return p.host.Destination(ctx, plugin, id)
}

func (benchPlugins) ByName(plugin string) string { return plugin }

func (benchPlugins) WithDefaults(_ string, settings map[string]string) map[string]string {
	return settings
}

func (benchPlugins) Processors(
	_ context.Context, parent string, declared []spec.Processor, _ connector.Chain,
) (connector.Chain, error) {
	return processor.Open(context.Background(), parent, declared,
		processor.Options{Registry: &processor.Registry{Builtin: processors.All()}})
}

// memory is a store that keeps nothing.
type memory struct{}

func (memory) Checkpoint(context.Context, string) (*spec.Checkpoint, error) { return nil, nil }

func (memory) SaveCheckpoints(context.Context, []spec.Checkpoint) error { return nil }

func (memory) BeginRun(context.Context, string) (int64, error) { return 1, nil }

func (memory) ConnectorState(context.Context, string) (*spec.ConnectorState, error) { return nil, nil }

func (memory) SaveConnectorState(context.Context, *spec.ConnectorState) error { return nil }
