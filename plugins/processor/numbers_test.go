package processor_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/processors"

	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/spec"
)

// digits is JSON with numbers that a float64 would change.
const digits = `{"d":12345678901234567890.12,"e":1234567.891234567891,"huge":1e400,"i":9007199254740993,` +
	`"l":[18446744073709551617,{"x":-0.1234567890123456789}],"small":1e-400}`

// Every processor that reads or passes on numbers preserves numbers that a float64 would change.
func TestProcessorsKeepDigits(t *testing.T) {
	decode := spec.Processor{Plugin: "json.decode", Settings: map[string]string{"field": ".Payload.After"}}
	wrapped := func(before, after string) string { return before + digits + after }
	for name, c := range map[string]struct {
		in         string
		processors []spec.Processor
	}{
		"json.decode": {digits, []spec.Processor{decode}},
		"json.encode": {digits,
			[]spec.Processor{decode, {Plugin: "json.encode", Settings: map[string]string{"field": ".Payload.After"}}}},
		"field.set as JSON": {digits,
			[]spec.Processor{decode, {Plugin: "field.set",
				Settings: map[string]string{"field": ".Payload.After", "type": "json",
					"value": `{{ toJson .Payload.After }}`}}}},
		"field.set constant": {"{}",
			[]spec.Processor{{Plugin: "field.set",
				Settings: map[string]string{"field": ".Payload.After", "type": "json", "value": digits}}}},
		"field.rename": {digits,
			[]spec.Processor{decode, {Plugin: "field.rename",
				Settings: map[string]string{"mapping": ".Payload.After.d:d2"}},
				{Plugin: "field.rename", Settings: map[string]string{"mapping": ".Payload.After.d2:d"}}}},
		"field.exclude": {digits[:len(digits)-1] + `,"z":1}`,
			[]spec.Processor{decode, {Plugin: "field.exclude",
				Settings: map[string]string{"fields": ".Payload.After.z"}}}},
		"expr.map": {digits,
			[]spec.Processor{decode, {Plugin: "expr.map",
				Settings: map[string]string{"mapping": ".Payload.After = after"}}}},
		"expr.filter": {digits,
			[]spec.Processor{decode,
				{Plugin: "expr.filter", Settings: map[string]string{"expression": "after.d > 1 && after.small < 1"}}}},
		"custom.javascript": {digits,
			[]spec.Processor{decode,
				{Plugin: "custom.javascript",
					Settings: map[string]string{"script": "function process(r) { r.Payload.After = " +
						"{...r.Payload.After}; return r }"}}}},
		"script of text": {digits,
			[]spec.Processor{{Plugin: "custom.javascript",
				Settings: map[string]string{"script": "function process(r) { r.Payload.After = " +
					"JSON.parse(r.Payload.After.text()); return r }"}}}},
		"avro": {digits,
			[]spec.Processor{decode,
				{Plugin: "avro.encode", Settings: map[string]string{"schema.strategy": "autoRegister",
					"schema.autoRegister.subject": "s"}},
				{Plugin: "avro.decode"}}},
		"clone": {digits, []spec.Processor{decode, {Plugin: "clone", Settings: map[string]string{"count": "1"}}}},
		"split": {`{"a":[` + digits + `]}`,
			[]spec.Processor{decode, {Plugin: "split", Settings: map[string]string{"field": ".Payload.After.a"}},
				{Plugin: "expr.map", Settings: map[string]string{"mapping": ".Payload.After = after.a"}}}},
		"dedupe": {digits,
			[]spec.Processor{decode, {Plugin: "dedupe", Settings: map[string]string{"key": ".Payload.After.d"}}}},
		"unwrap.debezium": {wrapped(`{"payload":{"op":"c","source":{},"before":null,"after":`, `}}`),
			[]spec.Processor{{Plugin: "unwrap.debezium"}}},
		"unwrap.kafkaconnect": {wrapped(`{"payload":`, `}`), []spec.Processor{{Plugin: "unwrap.kafkaconnect"}}},
		"unwrap.opencdc": {wrapped(`{"position":"MQ==","operation":"create","metadata":{},"key":null,`+
			`"payload":{"before":null,"after":`,
			`}}`),
			[]spec.Processor{{Plugin: "unwrap.opencdc"}}},
	} {
		for i := range c.processors {
			c.processors[i].ID = fmt.Sprint("p", i)
		}
		chain, err := processor.Open(t.Context(), "p", c.processors,
			processor.Options{Registry: &processor.Registry{Builtin: processors.All()}, Schemas: &schema.Memory{},
				StateDir: t.TempDir()})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		out, err := chain.Process(context.Background(), 1,
			[]record.Record{{Position: record.Position("1"), Operation: record.OperationCreate,
				After: record.Raw([]byte(c.in))}})
		if err != nil || len(out.Refused) > 0 || len(out.Records) == 0 {
			t.Errorf("%s: %v, %+v", name, err, out)
			continue
		}
		text, isRaw := out.Records[0].After.Raw()
		if !isRaw {
			text, err = out.Records[0].After.AppendJSON(nil)
		}
		if err != nil || string(text) != digits {
			t.Errorf("%s: %s, %v", name, text, err)
		}
	}
}
