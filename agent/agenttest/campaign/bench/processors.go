package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

const (
	fourFields = "format.options.id: int, format.options.name: string, format.options.active: bool, " +
		"format.options.price: int" + noSchemas
	structured   = "rate: 0, format.type: structured, " + fourFields
	raw          = "rate: 0, format.type: raw, " + fourFields
	rawTemplate  = `, sdk.record.format: template, sdk.record.format.options: '{{ printf "%s" .Payload.After }}'`
	setField     = `{id: set, plugin: field.set, settings: {field: .Payload.After.foo, value: bar}}`
	decodeJSON   = `{id: decode, plugin: json.decode, settings: {field: .Payload.After}}`
	mapTwoFields = `{id: map, plugin: expr.map, settings: {mapping: ".Payload.After.total = after.price * ` +
		`2\n.Payload.After.label = after.name + \"!\""}}`
	conditionally = `{id: filter, plugin: filter, condition: '{{ eq .Payload.After.name "x" }}'}`
	script        = `{id: js, plugin: custom.javascript, settings: {script: "function process(r) { ` +
		`r.Payload.After.total = r.Payload.After.name.length * 2; r.Payload.After.label = 'x'; return r }"}}`
)

var processors = suite{
	name:  "processors",
	title: "Processors between generator and file, four fields",
	columns: []column{{name: "records", format: "%.0f", total: true}, {name: "records/s", format: "%.0f"},
		{name: "CPU µs/record", format: "%.2f"},
		{name: "% of the rate without, in turn", format: "%.0f"}},
	cases: []testCase{
		processed("no processor", structured, ""), processed("field.set of a constant", structured, setField),
		processed("a condition on the payload, which no record meets", structured, conditionally),
		processed("json.decode", raw, decodeJSON), processed("expr.map of two fields", structured, mapTwoFields),
		processed("custom.javascript, two fields", structured, script),
		processed("custom.javascript, two fields, workers: 2", structured, strings.Replace(script, "{", "{workers: 2, ", 1)),
		inAlternation("raw payload, a line of a template instead of JSON",
			pipeline(0, source("builtin:generator", raw), toFile("builtin", 0)),
			pipeline(0, source("builtin:generator", raw),
				destination("builtin:file", "path: "+outputOf(0)+rawTemplate))),
	},
}

func processed(name, settings, processor string) testCase {
	without := pipeline(0, source("builtin:generator", settings), toFile("builtin", 0))
	with := without
	if processor != "" {
		with = pipeline(0, source("builtin:generator", settings), toFile("builtin", 0), "processors: ["+processor+"]")
	}
	return inAlternation(name, without, with)
}

// inAlternation is a case that measures a pipeline right after another, to compare the rates.
func inAlternation(name, without, with string) testCase {
	return testCase{name: name, measure: func(ctx context.Context, b *bench) ([]float64, error) {
		plain, err := b.measure(ctx, passing(name, []string{without}))
		if err != nil {
			return nil, err
		}
		v, err := b.measure(ctx, passing(name, []string{with}))
		if err != nil {
			return nil, err
		}
		return []float64{v[0], v[1], v[2], 100 * v[1] / plain[1]}, nil
	}}
}

var stages = suite{
	name:  "stages",
	title: "What a processor adds to a record of four fields, in multiples of the bare loop of generator → file",
	columns: []column{{name: "records", format: "%.0f", total: true},
		{name: "of the bare loop, CPU µs/record", format: "%.3f"},
		{name: "of the processor, CPU µs/record", format: "%.3f"}, {name: "multiple", format: "%.2f"}},
	cases: stageCases("none", "condition", "condition on the payload", "field.set", "json.decode", "expr.map",
		"expr.filter", "custom.javascript", "field.mask", "routing"),
}

func stageCases(names ...string) (cases []testCase) {
	for _, name := range names {
		cases = append(cases, testCase{name: name, measure: func(ctx context.Context, b *bench) ([]float64, error) {
			return b.stage(ctx, name)
		}})
	}
	return cases
}

var kept = suite{
	name: "kept",
	title: "Which share of the rate remains with a template of the path, routing or an aggregate: generator → files in " +
		"a bare loop, four fields",
	columns: []column{{name: "records", format: "%.0f", total: true}, {name: "without, CPU µs/record", format: "%.3f"},
		{name: "with, CPU µs/record", format: "%.3f"}, {name: "kept, %", format: "%.0f"}},
	cases: keptCases("fixed", "strftime", "field", "field and strftime", "routing", "sums", "statistics"),
}

func keptCases(names ...string) (cases []testCase) {
	for _, name := range names {
		cases = append(cases, testCase{name: name, measure: func(ctx context.Context, b *bench) ([]float64, error) {
			return b.keeps(ctx, name)
		}})
	}
	return cases
}

var keptTime = regexp.MustCompile(`BenchmarkKept/\S+\s+(\d+)\s+[\d.]+ ns/op\s+([\d.]+) cpu-ns/record`)

// keeps runs the loop with a fixed path, and right after it with something in addition. The first case has nothing in
// addition: its share is the noise.
func (b *bench) keeps(ctx context.Context, name string) ([]float64, error) {
	if err := buildTest(ctx, b.loop, "/agent/agenttest/e2e"); err != nil {
		return nil, err
	}
	var times []float64
	records := 0.0
	for _, one := range []string{"fixed", name} {
		cmd := exec.CommandContext(ctx, b.loop, "-test.run=^$", "-test.bench=^BenchmarkKept$/^"+
			regexp.QuoteMeta(one)+"$", fmt.Sprintf("-test.benchtime=%v", b.seconds/2))
		cmd.Dir = b.dir
		out, err := cmd.CombinedOutput()
		m := keptTime.FindSubmatch(out)
		if err != nil || m == nil {
			return nil, fmt.Errorf("%s: %w:\n%s", one, err, out)
		}
		n, _ := strconv.ParseFloat(string(m[1]), 64)
		t, _ := strconv.ParseFloat(string(m[2]), 64)
		records, times = records+n, append(times, t)
	}
	return []float64{records, times[0] / 1000, times[1] / 1000, 100 * times[0] / times[1]}, nil
}

var stageTimes = regexp.MustCompile(`BenchmarkStage/(\w+)/.*\s(\d+)\s+[\d.]+ ns/op\s+([\d.]+) cpu-ns/record`)

// stage runs the bare loop, reading alone, and reading with a processor.
func (b *bench) stage(ctx context.Context, name string) ([]float64, error) {
	if err := buildTest(ctx, b.loop, "/agent/agenttest/e2e"); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, b.loop, "-test.run=^$", "-test.bench=^BenchmarkStage$/^(loop|read|process)$/^"+
		regexp.QuoteMeta(name)+"$",
		fmt.Sprintf("-test.benchtime=%v", b.seconds/4))
	cmd.Dir = b.dir
	out, err := cmd.CombinedOutput()
	times, records := map[string]float64{}, 0.0
	for _, m := range stageTimes.FindAllSubmatch(out, -1) {
		n, _ := strconv.ParseFloat(string(m[2]), 64)
		times[string(m[1])], _ = strconv.ParseFloat(string(m[3]), 64)
		records += n
	}
	if err != nil || len(times) != 3 {
		return nil, fmt.Errorf("%s: %w:\n%s", name, err, out)
	}
	adds := times["process"] - times["read"]
	return []float64{records, times["loop"] / 1000, adds / 1000, adds / times["loop"]}, nil
}
