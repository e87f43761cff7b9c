package processor_test

import (
	"flag"
	"runtime/metrics"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/plugins/processor/expr"
	"github.com/conduit-agent/conduit/plugins/record"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

func exprAllocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

func mapping(t *testing.T, expression string) sdk.Processor {
	t.Helper()
	for _, plugin := range expr.Plugins() {
		if plugin.Name != "expr.map" {
			continue
		}
		p := plugin.New()
		if err := p.Configure(t.Context(), map[string]string{"mapping": ".Payload.After.n = " + expression}); err !=
			nil {
			t.Fatalf("%.80s: %v", expression, err)
		}
		return p
	}
	t.Fatal("there is no expr.map")
	return nil
}

// nest returns an expression that applies step to first the given number of times.
func nest(first, step string, times int) string {
	out, before := "let a0 = "+first+"; ", "a0"
	for i := range times {
		name := "a" + string(rune('b'+i))
		out += "let " + name + " = " + strings.ReplaceAll(step, "#", before) + "; "
		before = name
	}
	return out + before
}

var everyExpression = flag.Bool("expressions", false, "try also the hostile expressions that take long")

// Expressions with large results from small inputs refuse their record before they allocate memory.
func TestExpressionsAreBounded(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	items := make([]any, 20_000)
	for i := range items {
		items[i] = float64(i)
	}
	data := func() record.Record {
		return record.Record{After: record.Structured(map[string]any{"s": "xxxxxxxxxx", "big": big, "l": items,
			"json": "[" + strings.Repeat("{},", 300_000) + "1]"})}
	}
	all := []string{
		nest("after.s", "#+#+#+#+#+#+#+#+#+#", 8),
		nest("after.s", "[#, #] | join('')", 24),
		nest("after.s", "repeat(#, 10)", 9),
		nest("after.s", "replace(#, 'x', 'xxxxxxxxxx')", 9),
		nest("[1]", "[#, #]", 24),
		nest("[1]", "[#, #]", 24) + " | toJSON()",
		"repeat(after.big, 1000000)", "repeat(after.big, 100)", "replace(after.big, 'x', after.big)",
		"replace(after.big, '', after.big)",
		"split(after.big + after.big + after.big + after.big + after.big, '')", "join(after.l | map(after.big))",
		"join(after.l | map('x'), after.big)",
		"fromJSON(after.json)", "uniq(after.l)",
		"reduce(after.l, #acc + after.big, '')", "reduce(after.l, #acc + #acc, 'x')",
		"toBase64(reduce(1..70, #acc + after.big, ''))",
	}
	if *everyExpression {
		all = append(all,
			nest("after.s", "# + #", 24)+" == 'x'",
			nest("'x'", "#+#+#+#+#+#+#+#+#+#", 9),
			nest("after.s", "string(#) + string(#)", 24),
			nest("[1]", "[#, #]", 24)+" | flatten()",
			nest("[1]", "[#, #]", 24)+" | text()",
			nest("[1]", "[#, #]", 24)+" == after.l",
			nest("{a: 1}", "{a: #, b: #}", 24),
			"count(after.l, # in after.l)", "count(after.l, after.l == after.l)",
			"count(after.l, upper(after.big) == 'x')")
	}
	for _, hostile := range all {
		p := mapping(t, hostile)
		records := []record.Record{data(), {After: record.Structured(map[string]any{})}}
		b := sdk.NewProcessBatch(nil, records[:1], nil)
		before := exprAllocated()
		if err := p.Process(t.Context(), b); err != nil {
			t.Fatalf("%.80s: %v", hostile, err)
		}
		if f := b.Fates(); len(f) != 1 || f[0].Kind != sdk.Refused {
			t.Errorf("%.80s: fates are %+v, want a refusal", hostile, f)
		}
		if n := exprAllocated() - before; n > 512<<20 {
			t.Errorf("%.80s: %d MiB were allocated", hostile, n>>20)
		}
	}
}

// Bounded functions work with usual values.
func TestBoundedExpressions(t *testing.T) {
	for expression, want := range map[string]any{
		`after.a + "-" + after.a`: "x-x", `after.n + 1`: 3.0, `1 + 2`: int64(3), `"a" + "b"`: "ab",
		`join(["a", "b"], "-")`:          "a-b",
		`join(split(after.c, ","), ";")`: "1;2", `split(after.c, ",")[1]`: "2", `replace(after.c, ",", "")`: "12",
		`replace("aaa", "a", "b", 1)`: "baa", `repeat(after.a, 3)`: "xxx",
		`fromJSON('{"a":[1]}').a[0]`: 1.0, `string(after.n)`: "2", `text(after.l)`: "[1,2]",
		`len(flatten([[1], [2, 3]]))`: int64(3), `len(uniq([1, 1, 2]))`: int64(2),
		`after.l == [1.0, 2.0]`: true, `1.0 in after.l`: true, `"z" not in after`: true, `after.a != nil`: true,
		`upper(after.a) + lower("Y")`: "Xy",
		`sum(after.l) + len(after.a)`: 4.0, `toJSON(after.l)`: "[\n  1,\n  2\n]", `fromBase64(toBase64(after.a))`: "x",
		`reduce(after.l, #acc + string(#), "")`: "12",
		`any(after.l, # == 2)`:                  true, `map(after.l, # + 1)[0]`: 2.0,
		`after.a + string(after.n + 1) == "x3" ? "yes" : "no"`: "yes",
	} {
		p := mapping(t, expression)
		records := []record.Record{{After: record.Structured(map[string]any{"a": "x", "n": 2.0, "c": "1,2",
			"l": []any{1.0, 2.0}})}}
		b := sdk.NewProcessBatch(nil, records, nil)
		if err := p.Process(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		m, _ := records[0].After.Structured()
		if m["n"] != want {
			t.Errorf("%s is %#v, want %#v (%v)", expression, m["n"], want, b.Fates())
		}
	}
}
