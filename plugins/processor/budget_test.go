package processor_test

import (
	"fmt"
	"runtime/metrics"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/processors"

	"github.com/conduit-agent/conduit/plugins/connector"
	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// passed passes one record through processors with this budget. It returns the outcome and the number of bytes
// allocated meanwhile.
func passed(t *testing.T, budget int, r record.Record, declared ...spec.Processor) (connector.Outcome, uint64) {
	t.Helper()
	for i := range declared {
		declared[i].ID = fmt.Sprint("p", i)
	}
	c, err := processor.Open(t.Context(), "pipeline", declared,
		processor.Options{Registry: &processor.Registry{Builtin: processors.All()}, Budget: budget})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Teardown(t.Context()) })
	before := allocated()
	out, err := c.Process(t.Context(), "token", []record.Record{r})
	if err != nil {
		t.Fatalf("the processors failed: %v", err)
	}
	return out, allocated() - before
}

// allocated returns the total number of bytes that the process has allocated.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// The memory that all processors allocate for one record is checked before it is allocated. A record that exceeds the
// budget is refused.
func TestBudget(t *testing.T) {
	const budget = 1 << 20
	list := func(n int) record.Record {
		items := make([]any, n)
		for i := range items {
			items[i] = float64(i)
		}
		return record.Record{Position: record.Position("1"),
			After: record.Structured(map[string]any{"l": items, "text": strings.Repeat("x", 1000)})}
	}
	clone := spec.Processor{Plugin: "clone", Settings: map[string]string{"count": "700"}}
	split := spec.Processor{Plugin: "split", Settings: map[string]string{"field": ".Payload.After.l"}}
	for name, test := range map[string]struct {
		record     record.Record
		processors []spec.Processor
		pieces     int // 0: refused
	}{
		"few items":  {list(100), []spec.Processor{split}, 100},
		"many items": {list(100_000), []spec.Processor{split}, 0},
		"few copies": {list(0), []spec.Processor{{Plugin: "clone", Settings: map[string]string{"count": "9"}}},
			10},
		"many copies": {list(1000), []spec.Processor{clone}, 0},
		"copies of copies": {record.Record{Position: record.Position("1")}, []spec.Processor{clone, clone, clone},
			0},
		"items of copies": {list(20), []spec.Processor{{Plugin: "clone", Settings: map[string]string{"count": "200"}},
			split}, 0},
		"copies of metadata": {record.Record{Position: record.Position("1"), Metadata: manyFields(1000)},
			[]spec.Processor{clone}, 0},
		"pieces of a script": {record.Record{},
			[]spec.Processor{{Plugin: "custom.javascript", Settings: map[string]string{"script": "function " +
				"process(r) { return new Array(9000).fill(r) }"}}}, 0},
		"a script of a split": {list(20), []spec.Processor{split, {Plugin: "custom.javascript",
			Settings: map[string]string{"script": "function process(r) { return new Array(500).fill(r) }"}}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			out, bytes := passed(t, budget, test.record, test.processors...)
			if len(out.Records) != test.pieces {
				t.Errorf("%d records go on, want %d", len(out.Records), test.pieces)
			}
			if test.pieces == 0 && (len(out.Refused) != 1 || !strings.Contains(out.Refused[0].Err.Error(),
				"the result of one record is too large")) {
				t.Errorf("refused are %+v", out.Refused)
			}
			if most := uint64(16 * budget); bytes > most && !strings.Contains(name, "script") {
				t.Errorf("%d bytes were allocated, at most %d may be", bytes, most)
			}
		})
	}
}

func manyFields(n int) record.Metadata {
	m := make(map[string]string, n)
	for i := range n {
		m[fmt.Sprintf("key%06d", i)] = "value"
	}
	return record.NewMetadata(m)
}
