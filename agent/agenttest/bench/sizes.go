package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
)

var sizes = suite{
	name:  "sizes",
	title: "Records of all sizes, generator → file (raw payload, which the file has in base64)",
	columns: []column{{name: "records", format: "%.0f", total: true}, {name: "records/s", format: "%.0f"}, {name: "MB/s of payload", format: "%.1f"},
		{name: "CPU µs/record", format: "%.2f"}, {name: "peak MiB", format: "%.0f"}},
	cases: []testCase{
		ofSize("100 B", 100), ofSize("1 B", 1), ofSize("1 KiB", 1<<10), ofSize("10 KiB", 10<<10),
		ofSize("100 KiB", 100<<10), ofSize("1 MiB", 1<<20), ofSize("16 MiB", 16<<20),
	},
}

func ofSize(name string, n int) testCase {
	return testCase{name: name, measure: func(ctx context.Context, b *bench) ([]float64, error) {
		if err := os.WriteFile(b.path("payload"), bytes.Repeat([]byte{'x'}, n), 0o644); err != nil {
			return nil, err
		}
		f, err := b.pass(ctx, fromGenerator("builtin", "rate: 0, format.type: file, format.options.path: payload"), nil)
		v := f.values()
		return []float64{v[0], v[1], v[1] * float64(n) / 1e6, v[2], v[3]}, err
	}}
}

var scale = suite{
	name:    "scale",
	title:   "The same work in more pipelines, all of them generator → file at full speed",
	columns: throughput.columns,
	cases: []testCase{
		inAll("1 pipeline", 1), inAll("10 pipelines", 10), inAll("100 pipelines", 100), inAll("1,000 pipelines", 1000),
		evenly("1 pipeline at 100,000 records/s", 1), evenly("10 pipelines at 10,000 records/s", 10),
		evenly("100 pipelines at 1,000 records/s", 100), evenly("1,000 pipelines at 100 records/s", 1000),
	},
}

func inAll(name string, n int) testCase {
	c := passing(name, many(n, fast))
	c.long = n >= 1000
	return c
}

// evenly is a case of n pipelines that make 100,000 records a second together.
func evenly(name string, n int) testCase {
	return passing(name, many(n, fmt.Sprintf("rate: %d, %s", 100_000/n, twoFields)))
}
