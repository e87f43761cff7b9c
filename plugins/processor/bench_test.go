package processor_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/plugins/builtin/processors"

	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// fourFields returns n records like those of the generator: with four fields, or with the fields as JSON text.
func fourFields(n int, raw bool) []record.Record {
	records := make([]record.Record, n)
	for i := range records {
		r := &records[i]
		r.Position, r.Operation = fmt.Append(nil, i), record.OperationCreate
		r.Metadata = record.Metadata{{Key: "conduit.source.connector.id", Value: "p:c"}, {Key: "m", Value: "v"},
			{Key: "opencdc.readAt", Value: "1700000000000000000"}}
		if raw {
			r.After = record.Raw(fmt.Appendf(nil, `{"active":true,"id":%d,"name":"some name of it","price":12.5}`, i))
		} else {
			r.After = record.Structured(map[string]any{"active": true, "id": int64(i), "name": "some name of it",
				"price": 12.5})
		}
	}
	return records
}

// BenchmarkChain measures the cost that a processor adds to a record. "bare loop" is the cost of a record without
// processors: it is made and written as JSON. "bare loop again" repeats it as a control. The multiple of a processor is
// its time minus the time to make the records, divided by the time of the bare loop.
func BenchmarkChain(b *testing.B) { benchmarkChain(b, 1000) }

// BenchmarkChainOfSingleRecords is BenchmarkChain with single-record batches, as at low rates.
func BenchmarkChainOfSingleRecords(b *testing.B) { benchmarkChain(b, 1) }

func benchmarkChain(b *testing.B, batch int) {
	ctx := context.Background()
	for _, c := range []struct {
		name, plugin, condition string
		settings                map[string]string
		raw, write              bool
	}{
		{name: "bare loop", write: true},
		{name: "bare loop again", write: true},
		{name: "making only"},
		{name: "making raw only", raw: true},
		{name: "condition", plugin: "filter", condition: `{{ eq .Metadata.m "x" }}`},
		{name: "condition on payload", plugin: "filter", condition: `{{ eq .Payload.After.name "x" }}`},
		{name: "set constant", plugin: "field.set",
			settings: map[string]string{"field": ".Payload.After.foo", "value": "bar"}},
		{name: "set metadata", plugin: "field.set",
			settings: map[string]string{"field": ".Metadata.foo", "value": "bar"}},
		{name: "set template", plugin: "field.set",
			settings: map[string]string{"field": ".Payload.After.foo", "value": "{{ .Metadata.m }}"}},
		{name: "exclude", plugin: "field.exclude", settings: map[string]string{"fields": ".Payload.After.name"}},
		{name: "convert", plugin: "field.convert",
			settings: map[string]string{"field": ".Payload.After.id", "type": "string"}},
		{name: "json.decode", plugin: "json.decode", settings: map[string]string{"field": ".Payload.After"}, raw: true},
		{name: "json.encode", plugin: "json.encode", settings: map[string]string{"field": ".Payload.After"}},
		{name: "expr.filter", plugin: "expr.filter",
			settings: map[string]string{"expression": `after.price > 1 && metadata.m == "v"`}},
		{name: "expr.map of two fields", plugin: "expr.map",
			settings: map[string]string{"mapping": ".Payload.After.total = after.price * 2\n.Payload.After.label = " +
				"after.name + \"!\""}},
		{name: "JavaScript, unchanged", plugin: "custom.javascript",
			settings: map[string]string{"script": "function process(rec) { return rec }"}},
		{name: "JavaScript setting two fields", plugin: "custom.javascript", settings: map[string]string{
			"script": `function process(rec) { rec.Payload.After.total = rec.Payload.After.price * 2; ` +
				`rec.Payload.After.label = "x"; return rec }`}},
		{name: "mask", plugin: "field.mask", settings: map[string]string{"patterns": "card,email"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			var declared []spec.Processor
			if c.plugin != "" {
				declared = append(declared,
					spec.Processor{ID: "x", Plugin: c.plugin, Settings: c.settings, Condition: c.condition})
			}
			chain, err := processor.Open(ctx, "p", declared,
				processor.Options{Registry: &processor.Registry{Builtin: processors.All()}, Timeout: time.Minute})
			if err != nil {
				b.Fatal(err)
			}
			var line []byte
			b.ReportAllocs()
			for i := 0; i < b.N; i += batch {
				out, err := chain.Process(ctx, i, fourFields(batch, c.raw))
				if err != nil || len(out.Refused) > 0 {
					b.Fatal(err, out.Refused)
				}
				for j := range out.Records {
					if !c.write {
						break
					}
					if line, err = record.AppendJSON(line[:0], &out.Records[j]); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
