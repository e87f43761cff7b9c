package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
)

// alone compares the binary with a build without clusters, for an agent outside a cluster.
var alone = suite{
	name:  "no cluster",
	title: "An agent that is no member of a cluster",
	columns: []column{{name: "records/s", format: "%.0f"}, {name: "CPU µs/record", format: "%.2f"},
		{name: "MiB of its own", format: "%.1f"}},
	cases: []testCase{
		ofBuild("generator → file", "", fromGenerator("builtin", fast)),
		ofBuild("generator → file, -tags no_cluster", "no_cluster", fromGenerator("builtin", fast)),
		ofBuild("100 pipelines at 10 records/s", "", many(100, "rate: 10, "+twoFields)),
		ofBuild("100 pipelines at 10 records/s, -tags no_cluster", "no_cluster", many(100, "rate: 10, "+twoFields)),
	},
}

// ofBuild is a case that runs pipelines in a binary built with tags.
func ofBuild(name, tags string, pipelines []string) testCase {
	return testCase{name: name, measure: func(ctx context.Context, b *bench) ([]float64, error) {
		built := *b
		if tags != "" {
			built.binary += "-" + tags
			if _, err := os.Stat(built.binary); err != nil {
				build := exec.CommandContext(ctx, "go", "build", "-tags", tags, "-ldflags", "-s -w", "-o", built.binary,
					repository+"/cmd/conduit")
				if out, err := build.CombinedOutput(); err != nil {
					return nil, fmt.Errorf("cannot build with -tags %s: %w: %s", tags, err, out)
				}
			}
		}
		var own float64
		f, err := built.pass(ctx, pipelines, func(_ context.Context, _ *bench, a *agent) (func() error, error) {
			return func() (err error) {
				_, own, err = a.memory()
				return err
			}, nil
		})
		return []float64{f.perSecond(), f.perRecord(f.used.agent), own}, err
	}}
}
