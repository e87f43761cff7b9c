package main

import "context"

var fairness = suite{
	name:    "fairness",
	title:   "From being made to being written at 10 records/s, alongside a pipeline at full speed",
	columns: times,
	cases: []testCase{
		alongside("alone"),
		alongside("alongside generator → file", pipeline(1, source("builtin:generator", fast), toFile("builtin", 1))),
		alongside("alongside generator → file, executables",
			pipeline(1, source("standalone:generator", fast), toFile("standalone", 1))),
	},
}

// alongside is a case of a slow pipeline and of others that run at the same time.
func alongside(name string, others ...string) testCase {
	return testCase{name: name, measure: func(ctx context.Context, b *bench) ([]float64, error) {
		slow := pipeline(0, source("builtin:generator", "rate: 10, "+twoFields), toFile("builtin", 0))
		return b.arrivals(ctx, max(b.seconds, slowest/2), append([]string{slow}, others...)...)
	}}
}

var sharing = suite{
	name:  "sharing",
	title: "Two pipelines generator → file at full speed",
	columns: []column{{name: "records", format: "%.0f", total: true},
		{name: "the greater count by the smaller", format: "%.3f"}},
	cases: []testCase{{name: "two alike", measure: twoAlike}},
}

func twoAlike(ctx context.Context, b *bench) ([]float64, error) {
	if _, err := b.pass(ctx, many(2, fast), nil); err != nil {
		return nil, err
	}
	first, err := output{b.path(outputOf(0))}.lines()
	if err != nil {
		return nil, err
	}
	second, err := output{b.path(outputOf(1))}.lines()
	if err != nil {
		return nil, err
	}
	return []float64{float64(first + second), float64(max(first, second)) / float64(min(first, second))}, nil
}
