package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
)

var loop = suite{
	name:  "loop",
	title: "The engine and the bare loop, generator → file; a spool, and a bare loop of write and fsync",
	columns: []column{{name: "records", format: "%.0f", total: true}, {name: "records/s", format: "%.0f"},
		{name: "CPU µs/record", format: "%.3f"}},
	cases: loopCases(),
}

func loopCases() (cases []testCase) {
	for _, batch := range []int{1, 10, 100, 1000} {
		for _, subject := range []struct{ name, benchmark string }{{"loop", "BenchmarkFloor"},
			{"engine", "BenchmarkPipeline"}} {
			cases = append(cases, benchmark(fmt.Sprintf("%s, batches of %d", subject.name, batch),
				fmt.Sprintf("^%s$/^batch=%d$", subject.benchmark, batch)))
		}
	}
	for _, part := range []string{"floor", "in", "out"} {
		cases = append(cases, benchmark("spool, "+part, "^BenchmarkSpool$/^"+part+"$"))
	}
	return cases
}

var reported = regexp.MustCompile(`\s(\d+)\s.*\s([\d.]+) cpu-ns/record\s+([\d.]+) records/s`)

// benchmark is a case that runs a benchmark of package e2e.
func benchmark(name, pattern string) testCase {
	return testCase{name: name, measure: func(ctx context.Context, b *bench) ([]float64, error) {
		if err := buildTest(ctx, b.loop, "/agent/agenttest/e2e"); err != nil {
			return nil, err
		}
		cmd := exec.CommandContext(ctx, b.loop, "-test.run=^$", "-test.bench="+pattern,
			fmt.Sprintf("-test.benchtime=%v", b.seconds/2))
		cmd.Dir = b.dir
		out, err := cmd.CombinedOutput()
		found := reported.FindSubmatch(out)
		if err != nil || found == nil {
			return nil, fmt.Errorf("%s: %w:\n%s", pattern, err, out)
		}
		var v [3]float64
		for i := range v {
			if v[i], err = strconv.ParseFloat(string(found[i+1]), 64); err != nil {
				return nil, err
			}
		}
		return []float64{v[0], v[2], v[1] / 1000}, nil
	}}
}
