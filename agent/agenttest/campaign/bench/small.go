package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// small measures the disk writes of a nearly idle agent, which matter to flash memory. It needs a directory on a disk
// (-dir): a file system in memory writes nothing. Where strace is installed it counts the syncs, in a second period
// because tracing slows the agent down.
var small = suite{
	name:  "small hosts",
	title: "What pipelines write to the disk, generator → file",
	columns: []column{{name: "records", format: "%.0f", total: true}, {name: "syncs a day", format: "%.0f"},
		{name: "MB written a day", format: "%.1f"}, {name: "bytes written/record", format: "%.0f"},
		{name: "CPU s a day", format: "%.0f"}, {name: "peak MiB", format: "%.0f"}},
	cases: []testCase{
		wearing("idle", "", "50ms"),
		wearingAll("1,000 pipelines at 1 record/s", 1000, "1"), wearingAll("full speed", 1, "0"),
		wearing("1 record/s", "1", "50ms"), wearing("1 record/s, committed every 10s", "1", "10s"),
		wearing("10 records/s", "10", "50ms"), wearing("10 records/s, committed every 1s", "10", "1s"),
		wearing("10 records/s, committed every 10s", "10", "10s"),
	},
}

// settled is the time after the start of an agent after which it writes only for records.
const settled = 2 * time.Second

// wearing is a case of a pipeline with a rate, or with a silent source.
func wearing(name, rate, interval string) testCase { return wearingOf(name, 1, rate, interval) }

// wearingAll is a case of n pipelines with a rate each.
func wearingAll(name string, n int, rate string) testCase {
	c := wearingOf(name, n, rate, "50ms")
	c.long = true
	return c
}

func wearingOf(name string, n int, rate, interval string) testCase {
	return testCase{name: name, measure: func(ctx context.Context, b *bench) ([]float64, error) {
		if err := os.WriteFile(b.path("conduit.yaml"),
			[]byte("pipelines:\n  confirm: 100ms\ndb:\n  commit-interval: "+interval+"\n"), 0o644); err != nil {
			return nil, err
		}
		pipelines, out := many(n, "rate: "+rate+", "+twoFields), b.outputs(n)
		if rate == "" {
			if err := os.WriteFile(b.path("silent"), nil, 0o644); err != nil {
				return nil, err
			}
			pipelines = []string{pipeline(0, source("builtin:file", "path: silent"), toFile("builtin", 0))}
		}
		a, err := b.start(ctx, pipelines...)
		if err != nil {
			return nil, err
		}
		if rate != "" {
			err = await(ctx, "records", out.started)
		}
		var values []float64
		if err == nil {
			values, err = a.wear(ctx, b, out)
		}
		if err = a.stop(err); err != nil || rate == "" {
			return append([]float64{0}, values...), err
		}
		records, err := out.lines()
		return append([]float64{float64(records)}, values...), err
	}}
}

// wear returns the syncs of the agent and the MB that it writes per day, the bytes that it writes per record, its CPU
// time in seconds per day, and its peak memory in MiB.
func (a *agent) wear(ctx context.Context, b *bench, out output) ([]float64, error) {
	sleep(ctx, settled)
	recordsBefore := out.countable()
	before, err := a.written()
	if err != nil {
		return nil, err
	}
	used, err := a.usage()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	sleep(ctx, b.seconds)
	perDay := float64(24*time.Hour) / float64(time.Since(began))
	after, err := a.usage()
	if err != nil {
		return nil, err
	}
	written, err := a.written()
	if err != nil {
		return nil, err
	}
	records := out.countable() - recordsBefore
	peak, err := a.peak()
	if err != nil {
		return nil, err
	}
	syncs, err := a.syncs(ctx, b)
	each := math.NaN()
	if records > 0 {
		each = (written - before) / float64(records)
	}
	busy := after.minus(used).agent.Seconds()
	return []float64{syncs, (written - before) * perDay / 1e6, each, busy * perDay, peak}, err
}

// syncs returns how often the agent syncs a file per day, NaN where strace is missing.
func (a *agent) syncs(ctx context.Context, b *bench) (float64, error) {
	path, err := exec.LookPath("strace")
	if err != nil {
		return math.NaN(), nil
	}
	log := filepath.Join(b.dir, "syncs")
	tracer := exec.CommandContext(ctx, path, "-f", "-q", "-o", log, "-e", "trace=fsync,fdatasync,sync_file_range", "-p",
		strconv.Itoa(a.Process.Pid))
	var complaints bytes.Buffer
	tracer.Stderr = &complaints
	if err := tracer.Start(); err != nil {
		return 0, err
	}
	began := time.Now()
	sleep(ctx, b.seconds)
	took := time.Since(began)
	if err := tracer.Process.Signal(os.Interrupt); err != nil { // strace detaches and the agent continues
		return 0, fmt.Errorf("cannot trace the agent: %w: %s", errors.Join(err, tracer.Wait()), complaints.Bytes())
	}
	var exit *exec.ExitError
	if err := tracer.Wait(); err != nil &&
		(!errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGINT) {
		return 0, fmt.Errorf("cannot trace the agent: %w: %s", err, complaints.Bytes())
	}
	calls, err := os.ReadFile(log)
	n := bytes.Count(calls, []byte("sync(")) + bytes.Count(calls, []byte("sync_file_range("))
	return float64(n) * float64(24*time.Hour) / float64(took), err
}

// written returns how many bytes the kernel wrote to disks for the agent.
func (a *agent) written() (float64, error) {
	io, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", a.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, after, _ := bytes.Cut(io, []byte("\nwrite_bytes: "))
	n, _, _ := bytes.Cut(after, []byte("\n"))
	return strconv.ParseFloat(string(n), 64)
}
