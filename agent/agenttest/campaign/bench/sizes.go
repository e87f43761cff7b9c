package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

var sizes = suite{
	name:  "sizes",
	title: "Records of all sizes, generator → file (raw payload, which the file has in base64)",
	columns: []column{{name: "records", format: "%.0f", total: true}, {name: "records/s", format: "%.0f"},
		{name: "MB/s of payload", format: "%.1f"},
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
	name:  "scale",
	title: "The same work in more pipelines, each generator → file at full speed",
	columns: append(slices.Clone(throughput.columns), column{name: "ms to an answer of the API", format: "%.0f"},
		column{name: "ms from settled to acknowledged, mean", format: "%.0f"}),
	cases: []testCase{
		inAll("1 pipeline", 1), inAll("10 pipelines", 10), inAll("100 pipelines", 100), inAll("1,000 pipelines", 1000),
		evenly("1 pipeline at 100,000 records/s", 1), evenly("10 pipelines at 10,000 records/s", 10),
		evenly("100 pipelines at 1,000 records/s", 100), evenly("1,000 pipelines at 100 records/s", 1000),
		together("1,000 pipelines at 1 record/s", many(1000, "rate: 1, "+twoFields)),
	},
}

func inAll(name string, n int) testCase {
	c := together(name, many(n, fast))
	c.long = n >= 1000
	return c
}

// evenly is a case of n pipelines that together generate 100,000 records per second.
func evenly(name string, n int) testCase {
	return together(name, many(n, fmt.Sprintf("rate: %d, %s", 100_000/n, twoFields)))
}

// together is a case that also measures a load on the agent while its pipelines run.
func together(name string, pipelines []string) testCase {
	return testCase{name: name, measure: func(ctx context.Context, b *bench) ([]float64, error) {
		var answered time.Duration
		var metrics string
		f, err := b.pass(ctx, pipelines, func(ctx context.Context, _ *bench, a *agent) (func() error, error) {
			address, err := a.address(ctx)
			return func() error {
				begin := time.Now()
				if err := get("http://"+address+"/v1/pipelines/p0", io.Discard); err != nil {
					return err
				}
				answered = time.Since(begin)
				metrics, err = a.metrics(ctx)
				return err
			}, err
		})
		const lag = "conduit_source_ack_lag_seconds"
		return append(f.values(), 1000*answered.Seconds(),
			1000*total(metrics, lag+"_sum")/total(metrics, lag+"_count")), err
	}}
}
