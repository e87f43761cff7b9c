package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"time"
)

// small is what an agent writes to its disk where nearly nothing passes, as it matters to
// flash memory. It needs a directory on a disk (-dir): a file system in memory writes nothing.
var small = suite{
	name:    "small hosts",
	title:   "What one pipeline writes to the disk, generator → file",
	columns: []column{{name: "records", format: "%.0f", total: true}, {name: "MB written a day", format: "%.1f"}, {name: "CPU s a day", format: "%.0f"}, {name: "peak MiB", format: "%.0f"}},
	cases: []testCase{
		wearing("1 record/s", "1", "50ms"), wearing("1 record/s, committed every 10s", "1", "10s"),
		wearing("10 records/s", "10", "50ms"), wearing("10 records/s, committed every 1s", "10", "1s"), wearing("10 records/s, committed every 10s", "10", "10s"),
	},
}

func wearing(name, rate, interval string) testCase {
	return testCase{name: name, measure: func(ctx context.Context, b *bench) ([]float64, error) {
		if err := os.WriteFile(b.path("conduit.yaml"), []byte("db:\n  commit-interval: "+interval+"\n"), 0o644); err != nil {
			return nil, err
		}
		var written float64
		f, err := b.pass(ctx, fromGenerator("builtin", "rate: "+rate+", "+twoFields), func(_ context.Context, _ *bench, a *agent) (func() error, error) {
			before, err := a.written()
			return func() error {
				after, err := a.written()
				written = after - before
				return err
			}, err
		})
		perDay := float64(24*time.Hour) / float64(f.took)
		return []float64{f.records, written * perDay / 1e6, f.used.agent.Seconds() * perDay, f.peak}, err
	}}
}

// written returns how many bytes the agent had the kernel write to disks.
func (a *agent) written() (float64, error) {
	io, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", a.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, after, _ := bytes.Cut(io, []byte("\nwrite_bytes: "))
	n, _, _ := bytes.Cut(after, []byte("\n"))
	return strconv.ParseFloat(string(n), 64)
}
