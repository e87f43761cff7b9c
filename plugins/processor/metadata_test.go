package processor_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/builtin/processors"

	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/spec"
)

// A record that gets more metadata than allowed is refused, however a processor adds it. A record at the limit passes.
func TestMetadataIsLimited(t *testing.T) {
	t.Parallel()
	script := func(n int) map[string]string {
		return set("script",
			fmt.Sprintf("function process(r) { for (let i = 0; i < %d; i++) r.Metadata['k' + i] = 'v'; return r }", n),
			"timeout", "10s")
	}
	for name, c := range map[string]struct {
		plugin   string
		settings map[string]string
		before   int // entries
		refused  bool
	}{
		"field.set": {"field.set", set("field", ".Metadata.x", "value", "v"), record.MaxMetadata, true},
		"field.set of a template": {"field.set", set("field", ".Metadata.x", "value", "{{ .Metadata.k0 }}"),
			record.MaxMetadata, true},
		"expr.map":                  {"expr.map", set("mapping", `.Metadata.x = "v"`), record.MaxMetadata, true},
		"clone":                     {"clone", set("count", "1"), record.MaxMetadata, true},
		"custom.javascript":         {"custom.javascript", script(record.MaxMetadata + 1), 0, true},
		"custom.javascript at most": {"custom.javascript", script(record.MaxMetadata), 0, false},
		"field.set at most": {"field.set", set("field", ".Metadata.x", "value", "v"), record.MaxMetadata - 1,
			false},
		"a source": {"field.exclude", set("fields", ".Key"), record.MaxMetadata + 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			chain, err := processor.Open(t.Context(), "p",
				[]spec.Processor{{ID: "x", Plugin: c.plugin, Settings: c.settings}},
				processor.Options{Registry: &processor.Registry{Builtin: processors.All()}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = chain.Teardown(context.Background()) })
			r := record.Record{Position: record.Position("1"), After: record.Structured(map[string]any{"a": "b"})}
			for i := range c.before {
				r.Metadata.Add(fmt.Sprint("k", i), "v")
			}
			r.Metadata.Sort()
			out, err := chain.Process(t.Context(), 1, []record.Record{r})
			if err != nil || len(out.Refused) == 0 != !c.refused {
				t.Fatalf("%d records are refused (%v), want %v", len(out.Refused), err, c.refused)
			}
			if c.refused && !strings.Contains(out.Refused[0].Err.Error(),
				"more than 10000: put some into the payload") {
				t.Errorf("refused with %v", out.Refused[0].Err)
			}
		})
	}
}
