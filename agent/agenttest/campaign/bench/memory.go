package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// memory measures the effect of little memory on an agent whose binary is not in the page cache of the host, so that
// its pages are charged to the control group. It needs root, and -dir on a disk; the result depends on the read-ahead
// of the disk.
var memory = suite{
	name:  "little memory",
	title: "Ten pipelines at 10 records/s in a control group",
	columns: []column{{name: "records", format: "%.0f", total: true}, {name: "s to the first records of all",
		format: "%.1f"}, {name: "records/s", format: "%.0f"}, {name: "major faults", format: "%.0f"},
		{name: "own MiB", format: "%.0f"}},
	cases: []testCase{inMemory(256), inMemory(48), inMemory(32), inMemory(24)},
}

// inMemory is a case of an agent with a limit in MiB.
func inMemory(mib int) testCase {
	return testCase{name: fmt.Sprintf("%d MiB", mib), long: true,
		measure: func(ctx context.Context, b *bench) (_ []float64, err error) {
			group, err := newGroup("memory", map[string]string{"memory.limit_in_bytes": strconv.Itoa(mib << 20)},
				map[string]string{"memory.max": strconv.Itoa(mib << 20)})
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, removeGroup(ctx, group)) }()
			alone := *b
			b = &alone
			b.group, b.connectors = group, b.path("none") // specifications would be read within the group
			if err := uncache(ctx, b.binary); err != nil {
				return nil, err
			}
			began := time.Now()
			var first, faults, own float64
			f, err := b.pass(ctx, many(10, "rate: 10, "+twoFields),
				func(_ context.Context, _ *bench, a *agent) (func() error, error) {
					first = time.Since(began).Seconds()
					return func() (err error) {
						faults, own, err = a.memory()
						return err
					}, nil
				})
			return []float64{f.records, first, f.perSecond(), faults, own}, err
		}}
}

// uncache takes a file out of the page cache.
func uncache(ctx context.Context, path string) error {
	for _, args := range [][]string{{"sync", path}, {"dd", "if=" + path, "iflag=nocache", "count=0"}} {
		if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("cannot take %s out of the page cache: %w: %s", path, err, out)
		}
	}
	return nil
}

// newGroup creates a control group with limits and returns its directory. The first limits are for version 1 of control
// groups, for one controller; the second ones for version 2.
func newGroup(controller string, first, second map[string]string) (string, error) {
	root, limits := filepath.Join("/sys/fs/cgroup", controller), first
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); !errors.Is(err, fs.ErrNotExist) {
		root, limits = "/sys/fs/cgroup", second
	}
	group := filepath.Join(root, fmt.Sprintf("conduit-bench-%d", os.Getpid()))
	err := os.Mkdir(group, 0o755)
	for file, limit := range limits {
		if err == nil {
			err = os.WriteFile(filepath.Join(group, file), []byte(limit), 0o644)
		}
	}
	return group, err
}

// removeGroup removes a control group, which may be busy for a moment after its last process ended.
func removeGroup(ctx context.Context, group string) error {
	return await(ctx, "the end of the control group "+group, func() bool { return os.Remove(group) == nil })
}

// command returns the command that runs the binary, in the control group if there is one.
func (b *bench) command(ctx context.Context, args ...string) *exec.Cmd {
	if b.pinned {
		return exec.CommandContext(ctx, "taskset", append([]string{"-c", "0", b.binary}, args...)...)
	}
	if b.group == "" {
		return exec.CommandContext(ctx, b.binary, args...)
	}
	return exec.CommandContext(ctx, "sh",
		append([]string{"-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, b.group, b.binary}, args...)...)
}

// memory returns the number of pages that the agent had to read from the disk, and its memory without files in MiB.
func (a *agent) memory() (faults, own float64, err error) {
	proc := fmt.Sprintf("/proc/%d/", a.Process.Pid)
	stat, err := os.ReadFile(proc + "stat")
	if err != nil {
		return 0, 0, err
	}
	status, err := os.ReadFile(proc + "status")
	if err != nil {
		return 0, 0, err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if faults, err = strconv.ParseFloat(fields[9], 64); err != nil {
		return 0, 0, err
	}
	own, err = memoryIn(string(status), "RssAnon")
	return faults, own, err
}

// memoryIn returns a field of /proc/PID/status in MiB.
func memoryIn(status, field string) (float64, error) {
	_, after, _ := strings.Cut(status, "\n"+field+":")
	kib, _, _ := strings.Cut(strings.TrimSpace(after), " ")
	n, err := strconv.ParseFloat(kib, 64)
	return n / 1024, err
}
