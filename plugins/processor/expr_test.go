package processor_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/conduit-agent/conduit/plugins/plugintest"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/plugins/processor/expr"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

func exprConfigure(t testing.TB, plugin sdk.ProcessorPlugin, setting, value string) (sdk.Processor, error) {
	p := plugin.New()
	return p, p.Configure(t.Context(), p.Parameters().ApplyDefaults(map[string]string{setting: value}))
}

func exprProcess(t testing.TB, plugin sdk.ProcessorPlugin, setting, value string,
	r record.Record) (sdk.Fate, record.Record) {
	t.Helper()
	p, err := exprConfigure(t, plugin, setting, value)
	if err != nil {
		t.Fatal(err)
	}
	records := []record.Record{r}
	return plugintest.Process(t, p, records...)[0], records[0]
}

func order() record.Record {
	return record.Record{Position: record.Position("p"), Operation: record.OperationUpdate,
		Metadata: record.Metadata{{Key: "region", Value: "eu"}},
		Key:      record.Raw([]byte("k1")), Before: record.Structured(map[string]any{"price": 1}),
		After: record.Structured(map[string]any{"price": 2.5, "count": 4, "name": "Ann", "tags": []any{"a", "b"},
			"nested": map[string]any{"x": 1}, "none": nil})}
}

func TestMap(t *testing.T) {
	for _, test := range []struct {
		name, mapping string
		change        func(after map[string]any, r *record.Record)
	}{
		{"product", `.Payload.After.total = after.price * after.count`, func(m map[string]any, _ *record.Record) {
			m["total"] = 10.0
		}},
		{"condition", `.Payload.After.size = after.price * after.count > 5 ? "large" : "small"`,
			func(m map[string]any, _ *record.Record) { m["size"] = "large" }},
		{"several lines", "# a comment\n.Payload.After.a =\n   after.count\n   + 1\n\n.Metadata.kind = " +
			"upper(after.name)\n.Metadata[\"x=y\"] = len(after.tags) == 2",
			func(m map[string]any, r *record.Record) {
				m["a"] = int64(5)
				r.Metadata.Set("kind", "ANN")
				r.Metadata.Set("x=y", "true")
			}},
		{"all see what came", ".Payload.After.price = after.count\n.Payload.After.count = after.price",
			func(m map[string]any, _ *record.Record) { m["price"], m["count"] = int64(4), 2.5 }},
		{"missing", `.Payload.After.x = after.missing ?? "none"`, func(m map[string]any, _ *record.Record) {
			m["x"] = "none"
		}},
		{"deep", `.Payload.After.new.deep = {"list": map(after.tags, # + "!"), "range": 1..3}`,
			func(m map[string]any, _ *record.Record) {
				m["new"] = map[string]any{"deep": map[string]any{"list": []any{"a!", "b!"},
					"range": []any{int64(1), int64(2), int64(3)}}}
			}},
		{"raw key", `.Payload.After.id = text(key)`, func(m map[string]any, _ *record.Record) { m["id"] = "k1" }},
		{"key", `.Key = {"id": after.name}`, func(_ map[string]any, r *record.Record) {
			r.Key = record.Structured(map[string]any{"id": "Ann"})
		}},
		{"operation", `.Operation = operation == "update" ? "create" : operation`,
			func(_ map[string]any, r *record.Record) { r.Operation = record.OperationCreate }},
		{"before", `.Payload.After.change = after.price - before.price`, func(m map[string]any, _ *record.Record) {
			m["change"] = 1.5
		}},
		{"remove metadata", `.Metadata.region = nil`, func(_ map[string]any, r *record.Record) {
			r.Metadata.Delete("region")
		}},
		{"sum", `.Payload.After.sum = sum(1..100)`, func(m map[string]any, _ *record.Record) {
			m["sum"] = int64(5050)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := order()
			m, _ := want.After.Structured()
			test.change(m, &want)
			fate, got := exprProcess(t, expr.Map(), "mapping", test.mapping, order())
			if d := cmp.Diff(want.Map(), got.Map()); fate.Kind != sdk.Kept || d != "" {
				t.Errorf("fate is %+v, difference:\n%s", fate, d)
			}
		})
	}
}

// Values that an expression takes from a record are copied.
func TestMapCopies(t *testing.T) {
	_, got := exprProcess(t, expr.Map(), "mapping", `.Payload.After.copy = after.nested`, order())
	m, _ := got.After.Structured()
	m["copy"].(map[string]any)["x"] = int64(9)
	if m["nested"].(map[string]any)["x"] != 1 {
		t.Error("the copy shares its map with the original")
	}
}

func TestFilter(t *testing.T) {
	for expression, want := range map[string]sdk.FateKind{
		`after.price > 2 && metadata.region == "eu"`: sdk.Kept,
		`after.price > 3`:                         sdk.Filtered,
		`metadata["missing"] == ""`:               sdk.Kept,
		`"a" in after.tags and "price" in before`: sdk.Kept,
		`any(after.tags, # == "z")`:               sdk.Filtered,
		`text(position) matches "^p"`:             sdk.Kept,
		`after.none == nil`:                       sdk.Kept,
		`after.price.deep > 3`:                    sdk.Refused,
		`after.name > 3`:                          sdk.Refused,
		`after.name`:                              sdk.Refused,
	} {
		if fate, _ := exprProcess(t, expr.Filter(), "expression", expression, order()); fate.Kind != want {
			t.Errorf("%s: fate is %+v, want %v", expression, fate, want)
		}
	}
}

func TestMistakesAreFoundBefore(t *testing.T) {
	deepest := 4 << 10
	if *everyExpression {
		deepest = 64 << 10
	}
	for _, test := range []struct {
		plugin               sdk.ProcessorPlugin
		setting, value, want string
	}{
		{expr.Filter(), "expression", `aftr.price > 3`, "expression:1:1: unknown name aftr\n| aftr.price > 3\n| ^"},
		{expr.Filter(), "expression", "after.price > 3 &&\n  metadata.region > 5",
			"expression:2:19: invalid operation: > (mismatched types string and int)\n|   metadata.region > 5\n|     " +
				"              ^"},
		{expr.Filter(), "expression", `operation`, "expected bool, but got string"},
		{expr.Filter(), "expression", `after.price >`,
			"expression:1:13: unexpected token EOF\n| after.price >\n|             ^"},
		{expr.Filter(), "expression", ``, "required"},
		// Parsing it would exhaust the stack.
		{expr.Filter(), "expression", strings.Repeat("(", 4<<20), "it has 4194304 bytes, and may have 65536"},
		{expr.Filter(), "expression", strings.Repeat("[", deepest),
			fmt.Sprintf("expression:1:%d: unexpected token EOF", deepest)},
		{expr.Map(), "mapping", ".Metadata.a = \"x\"\n.Payload.After.total = foo(1)",
			"mapping:2:24: unknown name foo\n| .Payload.After.total = foo(1)\n|                        ^"},
		{expr.Map(), "mapping", ".Payload.After.a =\n  after.x +\n  upper(5)", "mapping:3:9: "},
		{expr.Map(), "mapping", "after.x", "mapping:1: want reference = expression"},
		{expr.Map(), "mapping", "after.x = 1", `mapping:1: cannot read reference "after.x"`},
		{expr.Map(), "mapping", "\n.Position = 1", `cannot set .Position`},
		{expr.Map(), "mapping", ".Payload = nil", "cannot set .Payload as a whole: name one field"},
		{expr.Map(), "mapping", "# nothing", "it has no line with an expression"},
	} {
		_, err := exprConfigure(t, test.plugin, test.setting, test.value)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%.1000s: error is %.1000v\nwant %s", test.value, err, test.want)
		}
	}
}

// If an expression fails, its record is refused unchanged, and the error names the place.
func TestRefusals(t *testing.T) {
	for mapping, want := range map[string]string{
		".Payload.After.a = 1\n.Payload.After.b = after.name * 2": "mapping:2:31: invalid operation: string * int",
		".Payload.After.a = after.missing.x":                      "cannot fetch x from <nil>",
		".Payload.After.a = 1\n.Operation = after.name":           "mapping:2: ",
		".Key = 5": "mapping:1: cannot set .Key",
		".Payload.After.a = repeat(\"x\", 10000000)": "memory budget exceeded",
		".Payload.After.a = 1..100000000":            "memory budget exceeded",
		".Payload.After.a = let l = 1..90000; " +
			"count(l, any(l, # < 0 && any(l, # < 0))) + count(l, any(l, # < 0))": "more than 1000000 elements",
	} {
		var fate sdk.Fate
		var got record.Record
		took := wait.CPUTime(func() { fate, got = exprProcess(t, expr.Map(), "mapping", mapping, order()) })
		if fate.Kind != sdk.Refused || !strings.Contains(fate.Err.Error(), want) {
			t.Errorf("%s: fate is %+v, want %q", mapping, fate, want)
		}
		if d := cmp.Diff(order().Map(), got.Map()); d != "" && !strings.Contains(mapping, ".Operation") {
			t.Errorf("%s: the record changed:\n%s", mapping, d)
		}
		if took > 10*time.Second {
			t.Errorf("%s: took %v", mapping, took)
		}
	}
}

func BenchmarkExpr(b *testing.B) {
	for _, bench := range []struct {
		name           string
		plugin         sdk.ProcessorPlugin
		setting, value string
	}{
		{"map of two fields", expr.Map(), "mapping",
			".Payload.After.total = after.x * 2\n.Payload.After.label = after.name + \"!\""},
		{"filter", expr.Filter(), "expression", `after.id >= 0`},
	} {
		b.Run(bench.name, func(b *testing.B) {
			p, err := exprConfigure(b, bench.plugin, bench.setting, bench.value)
			if err != nil {
				b.Fatal(err)
			}
			records := make([]record.Record, 100)
			for i := range records {
				records[i] = record.Record{Operation: record.OperationCreate,
					After: record.Structured(map[string]any{"id": i, "name": "name", "on": true, "x": 1.5})}
			}
			batch := sdk.NewProcessBatch(nil, records, nil)
			b.ReportAllocs()
			for b.Loop() {
				batch.Reset(nil, records, nil)
				if err := p.Process(b.Context(), batch); err != nil || batch.Fates() != nil {
					b.Fatal(err, batch.Fates())
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(records)), "ns/record")
		})
	}
}
