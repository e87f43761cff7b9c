package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/engine"
	"github.com/conduit-agent/conduit/agent/engine/backpressure"
	"github.com/conduit-agent/conduit/plugins"
	"github.com/conduit-agent/conduit/plugins/builtin"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/spec"
)

// BenchmarkRawLane copies b.N lines of 143 bytes from a file to a file, synced to disk: in a bare loop that reads,
// writes and syncs as often as the agent commits, on the raw lane, and as records, because an observer looks at them.
func BenchmarkRawLane(b *testing.B) {
	for name, copyLines := range map[string]func(b *testing.B, from, to string){
		"loop":    copyInLoop,
		"lane":    func(b *testing.B, from, to string) { copyInPipeline(b, from, to, &engine.TapPoints{}) },
		"records": copyObserved,
	} {
		b.Run(name, func(b *testing.B) {
			dir := b.TempDir()
			from, to := filepath.Join(dir, "input.log"), filepath.Join(dir, "output.log")
			writeLines(b, from, b.N)
			b.SetBytes(143)
			b.ReportAllocs()
			copyLines(b, from, to)
			b.StopTimer()
			in, err := os.Stat(from)
			check(b, err)
			if out, err := os.Stat(to); err != nil || out.Size() < in.Size() {
				b.Fatalf("the output is incomplete: %v, %v", out, err)
			}
		})
	}
}

func writeLines(b *testing.B, path string, n int) {
	f, err := os.Create(path)
	check(b, err)
	line := append(bytes.Repeat([]byte("x"), 142), '\n')
	const each = 1000
	for ; n > 0; n -= each {
		_, err := f.Write(bytes.Repeat(line, min(n, each)))
		check(b, err)
	}
	check(b, f.Close())
}

const benchInterval = 50 * time.Millisecond // between commits

func copyInLoop(b *testing.B, from, to string) {
	in, err := os.Open(from)
	check(b, err)
	defer in.Close()
	out, err := os.Create(to)
	check(b, err)
	defer out.Close()
	b.ResetTimer()
	used, synced, buf := cpuTime(b), time.Now(), make([]byte, 256<<10)
	for {
		n, err := in.Read(buf)
		if errors.Is(err, io.EOF) {
			break
		}
		check(b, err)
		_, err = out.Write(buf[:n])
		check(b, err)
		if time.Since(synced) >= benchInterval {
			check(b, out.Sync())
			synced = time.Now()
		}
	}
	check(b, out.Sync())
	b.StopTimer()
	reportRecords(b, b.N, used)
}

func copyObserved(b *testing.B, from, to string) {
	taps := &engine.TapPoints{}
	defer taps.Observe("p:src", func(*record.Batch) {})()
	copyInPipeline(b, from, to, taps)
}

func copyInPipeline(b *testing.B, from, to string, taps *engine.TapPoints) {
	declared := &spec.Pipeline{ID: "p", DeadLetterQueue: spec.DeadLetterQueue{Plugin: "builtin:log", WindowSize: 1},
		Connectors: []spec.Connector{
			{ID: "src", Type: spec.TypeSource, Plugin: "builtin:file", Settings: map[string]string{"path": from}},
			{ID: "dst", Type: spec.TypeDestination, Plugin: "builtin:file", Settings: map[string]string{"path": to,
				"sdk.record.format": "template", "sdk.record.format.options": `{{ printf "%s" .Payload.After }}`}}}}
	ctx, cancel := context.WithCancel(b.Context())
	syncs := &plugins.SyncGroup{}
	committer := &engine.Committer{Store: memory{}, CommitInterval: benchInterval, Barrier: syncs}
	committed := make(chan error, 1)
	go func() { committed <- committer.Run(ctx) }()
	host := &plugins.Host{Builtin: builtin.All(), Schemas: &schema.Memory{}, Syncs: syncs}
	p := &engine.Pipeline{Declared: declared, Resolved: declared, Plugins: benchPlugins{host}, Store: memory{},
		Committer: committer, Window: backpressure.Default, Taps: taps, Log: slog.New(slog.DiscardHandler)}
	check(b, p.Prepare(ctx))
	drain, ended := make(chan struct{}), make(chan error, 1)
	b.ResetTimer()
	used := cpuTime(b)
	go func() { ended <- p.Run(ctx, drain, func() {}) }()
	acked := &p.Stats.Source("p:src").Acked
	wait.For(b, "all records", func() bool { return acked.Load() >= uint64(b.N) })
	b.StopTimer()
	reportRecords(b, b.N, used)
	close(drain)
	check(b, <-ended)
	cancel()
	check(b, <-committed)
}
