package e2e_test

import (
	"path/filepath"
	"testing"

	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// benchKept are loops from a generator of four fields to files, by name. All but the first have something in addition.
var benchKept = []struct {
	name string
	path string
	add  spec.Processor
}{
	{name: "fixed", path: "out"},
	{name: "strftime", path: `{{ strftime "%Y-%m-%d/%H" }}`},
	{name: "field", path: "{{ .Payload.After.active }}"},
	{name: "field and strftime", path: `{{ .Payload.After.active }}/{{ strftime "%Y-%m-%d" }}`},
	{name: "routing", path: "out", add: benchRouting()},
	{name: "sums", path: "out", add: benchAggregate("count", "sum(.Payload.After.price)")},
	{name: "statistics", path: "out", add: benchAggregate("count", "avg(.Payload.After.price)",
		"max(.Payload.After.price)", "p99(.Payload.After.price)", "distinct(.Payload.After.id)")},
}

// benchAggregate computes results for each value of a field.
func benchAggregate(results ...string) spec.Processor {
	settings := map[string]string{"key": ".Payload.After.active", "window.size": "1h"}
	for i, r := range results {
		settings["fields.r"+string(rune('0'+i))] = r
	}
	return spec.Processor{Plugin: "aggregate", Settings: settings}
}

// BenchmarkKept measures how many records per second of processor time a loop of reads and writes keeps with routing, a
// template of the path, or an aggregate. The loop has no agent, which would hide a part of the cost.
func BenchmarkKept(b *testing.B) {
	for _, one := range benchKept {
		b.Run(one.name, func(b *testing.B) {
			benchKeep(b, filepath.Join(b.TempDir(), one.path), openStage(b, one.add))
		})
	}
}

// benchKeep moves b.N records from a generator through the chain, unless it is nil, to files.
func benchKeep(b *testing.B, path string, chain connector.Chain) {
	host, ctx := benchHost(), b.Context()
	from := benchFour("")
	src, err := host.Source(ctx, from.Plugin, "p:src")
	check(b, err)
	dst, err := host.Destination(ctx, "builtin:file", "p:dst")
	check(b, err)
	check(b, src.Configure(ctx, from.Settings))
	check(b, dst.Configure(ctx, map[string]string{"path": path, "fsync": "false"}))
	check(b, src.Open(ctx, nil))
	check(b, dst.Open(ctx, func(_ int, err error) { check(b, err) }))
	b.ReportAllocs()
	b.ResetTimer()
	used, read := cpuTime(b), 0
	for read < b.N {
		batch, err := src.Read(ctx)
		check(b, err)
		read += batch.Len()
		if chain != nil {
			records, err := batch.Records()
			check(b, err)
			out, err := chain.Process(ctx, read, records)
			check(b, err)
			if batch = record.NewBatch(out.Records); len(out.Refused) > 0 {
				b.Fatalf("refused: %v", out.Refused)
			}
		}
		check(b, dst.Write(ctx, batch))
	}
	b.StopTimer()
	reportRecords(b, read, used)
	check(b, src.Teardown(ctx))
	check(b, dst.Teardown(ctx))
}
