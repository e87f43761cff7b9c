package processor_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/processors"

	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// encodedWith returns a batch as a connector's process sends it: n records whose payload has the given number of
// fields.
func encodedWith(t *testing.T, n, fields int) []byte {
	t.Helper()
	records := fourFields(n, false)
	for i := range records {
		m := map[string]any{}
		for f := range fields {
			m[fmt.Sprint("field", f)] = "a text"
		}
		records[i].After = record.Structured(m)
	}
	b, err := record.NewBatch(records).AppendWire(nil, 0, n)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A processor that does not read the payload does not decode it: its cost does not depend on the number of fields, and
// the payload stays unchanged.
func TestUnreadPayloadsStayEncoded(t *testing.T) {
	const n = 100
	for name, c := range map[string]struct {
		spec.Processor
		reads bool
	}{
		"metadata": {spec.Processor{Plugin: "field.set",
			Settings: map[string]string{"field": ".Metadata.m", "value": "x"}}, false},
		"condition": {spec.Processor{Plugin: "filter", Condition: `{{ eq .Metadata.m "x" }}`}, false},
		"expression": {spec.Processor{Plugin: "expr.filter",
			Settings: map[string]string{"expression": `metadata.m == "v"`}}, false},
		"operation": {spec.Processor{Plugin: "field.set",
			Settings: map[string]string{"field": ".Operation", "value": "update"}}, false},
		"payload": {spec.Processor{Plugin: "field.set",
			Settings: map[string]string{"field": ".Payload.After.x", "value": "x"}}, true},
		"payload, a field": {spec.Processor{Plugin: "expr.filter",
			Settings: map[string]string{"expression": `after.field0 == "a text"`}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			c.ID = "x"
			chain, err := processor.Open(t.Context(), "p", []spec.Processor{c.Processor},
				processor.Options{Registry: &processor.Registry{Builtin: processors.All()}})
			if err != nil {
				t.Fatal(err)
			}
			pass := func(encoded []byte) *record.Batch {
				b, err := record.NewEncodedBatch(encoded)
				if err != nil {
					t.Fatal(err)
				}
				records, err := b.Records()
				if err != nil {
					t.Fatal(err)
				}
				out, err := chain.Process(context.Background(), 1, records)
				if err != nil || len(out.Records) != n {
					t.Fatalf("%d of %d records are left, error %v", len(out.Records), n, err)
				}
				return record.NewBatch(out.Records)
			}
			few, many := encodedWith(t, n, 2), encodedWith(t, n, 50)
			cheap := testing.AllocsPerRun(5, func() { pass(few) })
			dear := testing.AllocsPerRun(5, func() { pass(many) })
			if decoded := dear > cheap+n; decoded != c.reads {
				t.Errorf("%.0f allocations with 2 fields, %.0f with 50", cheap, dear)
			}
			out, err := pass(many).AppendWire(nil, 0, n)
			if err != nil {
				t.Fatal(err)
			}
			payload, _ := record.AppendWire(nil, &record.Record{After: fiftyFields()})
			if same := bytes.Count(out, payload) == n; !same && !c.reads {
				t.Error("the payload does not leave as it came")
			}
		})
	}
}

func fiftyFields() record.Data {
	m := map[string]any{}
	for f := range 50 {
		m[fmt.Sprint("field", f)] = "a text"
	}
	return record.Structured(m)
}
