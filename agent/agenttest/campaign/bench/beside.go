package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"
)

// beside runs the same pipeline files with the agent and with the Conduit that -conduit names, one after the other.
// Both save positions in SQLite; Conduit's API is off.
func beside(conduit string) suite {
	one := []column{{name: "records/s", format: "%.0f"}, {name: "CPU µs/record", format: "%.2f"},
		{name: "peak MiB", format: "%.0f"}, {name: "s to records in all outputs", format: "%.2f"}}
	columns := slices.Clone(one)
	for _, c := range one {
		columns = append(columns, column{name: "Conduit, " + c.name, format: c.format})
	}
	columns = append(columns, column{name: "CPU time, of Conduit's", format: "%.3f"},
		column{name: "time to records, of Conduit's", format: "%.2f"})
	pair := func(name string, pipelines []string) testCase {
		return testCase{name: name, measure: func(ctx context.Context, b *bench) ([]float64, error) {
			return b.besides(ctx, conduit, pipelines)
		}}
	}
	return suite{
		name:    "conduit",
		title:   "The agent and Conduit, the same pipeline files",
		columns: columns,
		cases: []testCase{
			pair("generator → file", fromGenerator("builtin", fast)),
			pair("generator → file, schemas", fromGenerator("builtin",
				"rate: 0, format.type: structured, format.options.id: int, format.options.name: string")),
			pair("1,000 pipelines at 1 record/s", many(1000, "rate: 1, "+twoFields)),
		},
	}
}

// besides measures the agent, then the executable conduit, each in an empty directory.
func (b *bench) besides(ctx context.Context, conduit string, pipelines []string) ([]float64, error) {
	binary, err := filepath.Abs(conduit)
	if err != nil {
		return nil, err
	}
	other := *b
	other.dir, other.binary = b.dir+"-conduit", binary
	other.arguments = []string{"--api.enabled=false", "--db.type=sqlite", "--db.sqlite.path=conduit.db"}
	var values []float64
	for _, side := range []*bench{b, &other} {
		v, err := side.measure(ctx, testCase{measure: func(ctx context.Context, b *bench) ([]float64, error) {
			return b.fromStart(ctx, pipelines)
		}})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(side.binary), err)
		}
		values = append(values, v...)
	}
	return append(values, values[1]/values[5], values[3]/values[7]), nil
}

// fromStart runs endless pipelines and measures the time until each has written a record.
func (b *bench) fromStart(ctx context.Context, pipelines []string) ([]float64, error) {
	begin := time.Now()
	a, err := b.start(ctx, pipelines...)
	if err != nil {
		return nil, err
	}
	out := b.outputs(len(pipelines))
	err = await(ctx, "records in all outputs", out.started)
	up := time.Since(begin)
	var f flow
	if err == nil {
		f, err = b.observe(ctx, a, out, nil)
	}
	// The exit code of another program does not matter.
	if stopped := a.stop(err); stopped != nil && (err != nil || b.arguments == nil) {
		return nil, stopped
	}
	err = f.count(out)
	return []float64{f.perSecond(), f.perRecord(f.used.agent), f.peak, up.Seconds()}, err
}
