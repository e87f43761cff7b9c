package processor_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/plugins/builtin/processors"
	"github.com/conduit-agent/conduit/plugins/processor"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/schema"
	"github.com/conduit-agent/conduit/plugins/sdk"
	"github.com/conduit-agent/conduit/spec"
)

// TestNeverFound runs every processor that passes records without its field, first with such records, then with a
// record that has the field.
func TestNeverFound(t *testing.T) {
	table := filepath.Join(t.TempDir(), "table.csv")
	if err := os.WriteFile(table, []byte("id,name\n1,one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	field := map[string]string{"field": ".Payload.After.wanted"}
	settings := map[string]map[string]string{
		"aggregate": {"key": ".Payload.After.wanted", "fields.w": "last(.Payload.After.wanted)", "window.size": "1h"},
		"avro.encode": {"field": ".Payload.After.wanted", "schema.strategy": "autoRegister",
			"schema.autoRegister.subject": "s"},
		"base64.decode": field, "base64.encode": field, "json.decode": field, "json.encode": field,
		"dedupe":        {"key": ".Payload.After.wanted", "window.time": "1h"},
		"enrich.file":   {"path": table, "key": ".Payload.After.wanted", "missing": "pass"},
		"field.convert": {"field": ".Payload.After.wanted", "type": "string"},
		"field.exclude": {"fields": ".Payload.After.wanted"},
		"field.include": {"fields": ".Payload.After.wanted,.Key.id,.Key"},
		"field.mask":    {"fields": ".Payload.After.wanted"},
		"field.rename":  {"mapping": ".Payload.After.wanted:other"},
		"parse.csv":     {"field": ".Payload.After.wanted", "columns": "a"},
		"parse.grok":    {"field": ".Payload.After.wanted", "pattern": "%{WORD:w}"},
		"parse.kv":      field,
		"parse.regex":   {"field": ".Payload.After.wanted", "pattern": "(?P<w>.*)"},
		"parse.syslog":  field, "parse.url": field, "parse.xml": field,
		"parse.time": {"field": ".Payload.After.wanted", "formats": "rfc3339"},
		"sample":     {"key": ".Payload.After.wanted", "ratio": "1"},
	}
	// The first may create its field, the others have the code of avro.encode.
	exempt := []string{"field.set", "avro.decode", "protobuf.decode", "protobuf.encode"}
	var readers []string
	for _, plugin := range processors.All() {
		if _, ok := plugin.New().(sdk.FieldReader); ok && !slices.Contains(exempt, plugin.Name) {
			readers = append(readers, plugin.Name)
		}
	}
	slices.Sort(readers)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(settings)), readers); diff != "" {
		t.Errorf("processors that report fields (-tested +all):\n%s", diff)
	}
	for name, s := range settings {
		for _, workers := range []int{1, 3} {
			if workers > 1 && (name == "aggregate" || name == "dedupe") {
				continue // it has one worker
			}
			t.Run(name+"/"+strconv.Itoa(workers), func(t *testing.T) {
				stats := &processor.Stats{}
				c, err := processor.Open(context.Background(), "p",
					[]spec.Processor{{ID: "one", Plugin: name, Settings: s, Workers: workers}},
					processor.Options{Registry: &processor.Registry{Builtin: processors.All()}, Schemas: &schema.Memory{},
						Stats: func(string, string) *processor.Stats { return stats }})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = c.Teardown(context.Background()) }()
				process := func(n int, after map[string]any) {
					t.Helper()
					records := make([]record.Record, n)
					for i := range records {
						records[i] = record.Record{Position: record.Position(strconv.Itoa(i)),
							After: record.Structured(maps.Clone(after))}
					}
					if _, err := c.Process(context.Background(), nil, records); err != nil {
						t.Fatal(err)
					}
				}
				process(9, map[string]any{"watned": "x"})
				if never := stats.NeverFound.Load(); never != nil {
					t.Error("too early:", *never)
				}
				process(1, map[string]any{"watned": "x"})
				if never := stats.NeverFound.Load(); never == nil || cmp.Diff([]string{".Payload.After.wanted"}, *never) != "" {
					t.Fatal("not reported:", never)
				}
				process(1, map[string]any{"wanted": "x"})
				if never := stats.NeverFound.Load(); len(*never) > 0 {
					t.Error("still reported:", *never)
				}
			})
		}
	}
}
