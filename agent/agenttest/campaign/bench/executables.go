package main

import (
	"context"
	"fmt"
)

var host = suite{
	name:  "host",
	title: "Between executables, generator → file",
	columns: []column{{name: "records", format: "%.0f", total: true}, {name: "records/s", format: "%.0f"},
		{name: "agent's CPU µs/record", format: "%.2f"},
		{name: "connectors' CPU µs/record", format: "%.2f"}, {name: "agent's peak MiB", format: "%.0f"}},
	cases: []testCase{
		between("batches of 100", fast+", sdk.batch.size: 100", toFile("standalone", 0), nil),
		between("batches as the source reads them", fast, toFile("standalone", 0), nil),
		between("one record a message", fast+", sdk.batch.size: 1", toFile("standalone", 0), nil),
		between("batches of 100, the agent decodes them (an inspector)", fast+", sdk.batch.size: 100",
			toFile("standalone", 0), inspect),
		between("batches of 100, to a built-in file", fast+", sdk.batch.size: 100", toFile("builtin", 0), nil),
	},
}

func between(name, settings, to string, by observer) testCase {
	return testCase{name: name, measure: func(ctx context.Context, b *bench) ([]float64, error) {
		f, err := b.pass(ctx, []string{pipeline(0, source("standalone:generator", settings), to)}, by)
		return []float64{f.records, f.perSecond(), f.perRecord(f.used.agent), f.perRecord(f.used.connectors), f.peak},
			err
	}}
}

const tolerant = "dead-letter-queue: {plugin: 'builtin:file', settings: {path: refused.jsonl}, window-size: 0}"

var deadLetters = suite{
	name:    "dead letters",
	title:   "A dead-letter queue, executables, generator → a file that refuses",
	columns: throughput.columns,
	cases: []testCase{
		refusing("nothing refused, the first refusal would end it", 0, ""),
		refusing("nothing refused, refusals are tolerated", 0, tolerant),
		refusing("1 in 100 refused", 100, tolerant),
	},
}

// refusing is a case whose destination refuses one of every n records.
func refusing(name string, every int, queue string) testCase {
	to := destination("standalone:refusing", fmt.Sprintf("path: %s, refuse: %d", outputOf(0), every))
	return passing(name, []string{pipeline(0, source("standalone:generator", fast), to, queue)})
}
