package e2e_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/processors"

	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/spec"
)

// benchStages are the measured processors, by name.
var benchStages = []struct {
	name string
	spec.Processor
}{
	{"none", spec.Processor{}},
	{"condition", spec.Processor{Plugin: "filter", Condition: `{{ eq .Metadata.m "x" }}`}},
	{"condition on the payload", spec.Processor{Plugin: "filter", Condition: `{{ eq .Payload.After.name "x" }}`}},
	{"field.set", spec.Processor{Plugin: "field.set",
		Settings: map[string]string{"field": ".Payload.After.foo", "value": "bar"}}},
	{"json.decode", spec.Processor{Plugin: "json.decode", Settings: map[string]string{"field": ".Payload.After"}}},
	{"expr.map", spec.Processor{Plugin: "expr.map",
		Settings: map[string]string{"mapping": ".Payload.After.total = after.price * 2\n.Payload.After.label = " +
			"after.name + \"!\""}}},
	{"expr.filter", spec.Processor{Plugin: "expr.filter",
		Settings: map[string]string{"expression": `after.price >= 0 && metadata.m != "v"`}}},
	{"custom.javascript", spec.Processor{Plugin: "custom.javascript", Settings: map[string]string{
		"script": `function process(r) { r.Payload.After.total = r.Payload.After.price * 2; r.Payload.After.label = ` +
			`"x"; return r }`}}},
	{"routing", benchRouting()},
	{"field.mask", spec.Processor{Plugin: "field.mask", Settings: map[string]string{"patterns": "card,email"}}},
}

// benchRouting chooses the first of three destinations.
func benchRouting() spec.Processor {
	p := spec.Pipeline{Routing: spec.RouteToFirst, Connectors: []spec.Connector{
		{ID: "a", Type: spec.TypeDestination, Condition: `{{ eq .Metadata.m "x" }}`},
		{ID: "b", Type: spec.TypeDestination, Condition: `{{ eq .Payload.After.name "x" }}`},
		{ID: "c", Type: spec.TypeDestination, Default: true}}}
	return p.Chain(nil)[0]
}

// benchFour is a generator of records with four fields, or of the same records as JSON.
func benchFour(stage string) spec.Connector {
	c := spec.Connector{Plugin: "builtin:generator",
		Settings: map[string]string{"rate": "0", "format.type": "structured",
			"format.options.id": "int", "format.options.name": "string", "format.options.active": "bool",
			"format.options.price":               "int",
			"sdk.schema.extract.payload.enabled": "false", "sdk.schema.extract.key.enabled": "false"}}
	if stage == "json.decode" {
		c.Settings["format.type"] = "raw"
	}
	return c
}

// BenchmarkStage measures the cost of a processor per record: "process" minus "read". The baseline "loop" only reads
// and writes structured records.
func BenchmarkStage(b *testing.B) {
	for _, stage := range benchStages {
		b.Run("loop/"+stage.name, func(b *testing.B) { benchLoop(b, benchFour("")) })
		b.Run("read/"+stage.name, func(b *testing.B) { benchProcess(b, benchFour(stage.name), nil) })
		b.Run("process/"+stage.name, func(b *testing.B) {
			benchProcess(b, benchFour(stage.name), openStage(b, stage.Processor))
		})
	}
}

func openStage(b *testing.B, p spec.Processor) connector.Chain {
	if p.Plugin == "" {
		return nil
	}
	p.ID = strings.ReplaceAll(p.Plugin, ".", "-")
	chain, err := processor.Open(b.Context(), "p", []spec.Processor{p},
		processor.Options{Registry: &processor.Registry{Builtin: processors.All()}, Timeout: time.Minute})
	check(b, err)
	return chain
}

// benchProcess reads b.N records and passes them through the chain, unless chain is nil.
func benchProcess(b *testing.B, from spec.Connector, chain connector.Chain) {
	ctx := b.Context()
	src, err := benchHost().Source(ctx, from.Plugin, "p:src")
	check(b, err)
	check(b, src.Configure(ctx, from.Settings))
	check(b, src.Open(ctx, nil))
	b.ReportAllocs()
	b.ResetTimer()
	used, read := cpuTime(b), 0
	for read < b.N {
		batch, err := src.Read(ctx)
		check(b, err)
		records, err := batch.Records()
		check(b, err)
		read += len(records)
		if chain == nil {
			continue
		}
		out, err := chain.Process(ctx, read, records)
		check(b, err)
		if len(out.Records) != len(records) {
			b.Fatalf("%d of %d records are left: %v", len(out.Records), len(records), out.Refused)
		}
	}
	b.StopTimer()
	reportRecords(b, read, used)
	check(b, src.Teardown(ctx))
}

// benchLoop moves b.N records from a source to a file in a loop of reads and writes.
func benchLoop(b *testing.B, from spec.Connector) {
	dir := b.TempDir()
	host, ctx := benchHost(), b.Context()
	src, err := host.Source(ctx, from.Plugin, "p:src")
	check(b, err)
	dst, err := host.Destination(ctx, "builtin:file", "p:dst")
	check(b, err)
	check(b, src.Configure(ctx, from.Settings))
	check(b, dst.Configure(ctx, map[string]string{"path": filepath.Join(dir, "out"), "fsync": "false"}))
	check(b, src.Open(ctx, nil))
	written := 0
	check(b, dst.Open(ctx, func(n int, err error) { check(b, err); written += n }))
	b.ReportAllocs()
	b.ResetTimer()
	used := cpuTime(b)
	for written < b.N {
		batch, err := src.Read(ctx)
		check(b, err)
		check(b, dst.Write(ctx, batch))
	}
	b.StopTimer()
	reportRecords(b, written, used)
	check(b, src.Teardown(ctx))
	check(b, dst.Teardown(ctx))
}
