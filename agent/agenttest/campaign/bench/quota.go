package main

import (
	"context"
	"errors"
	"time"
)

// quota measures the effect of a small share of a CPU on an agent. It needs root.
var quota = suite{
	name:  "little CPU",
	title: "Ten pipelines at a record a second in a control group",
	columns: []column{{name: "records", format: "%.0f", total: true}, {name: "s to the first records of all",
		format: "%.1f"}, {name: "records/s", format: "%.1f"}, {name: "% of one CPU", format: "%.2f"}},
	cases: []testCase{inQuota("100 % of a CPU", "100000"), inQuota("1 % of a CPU", "1000")},
}

// inQuota is a case of an agent with a quota in microseconds per 100 ms of a CPU.
func inQuota(name, each string) testCase {
	return testCase{name: name, long: true, measure: func(ctx context.Context, b *bench) (_ []float64, err error) {
		group, err := newGroup("cpu", map[string]string{"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": each},
			map[string]string{"cpu.max": each + " 100000"})
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, removeGroup(ctx, group)) }()
		alone := *b
		b = &alone
		b.group, b.connectors = group, b.path("none") // specifications would be read within the group
		began := time.Now()
		var first float64
		f, err := b.pass(ctx, many(10, "rate: 1, "+twoFields),
			func(context.Context, *bench, *agent) (func() error, error) {
				first = time.Since(began).Seconds()
				return func() error { return nil }, nil
			})
		return []float64{f.records, first, f.perSecond(), 100 * f.used.agent.Seconds() / f.took.Seconds()}, err
	}}
}
