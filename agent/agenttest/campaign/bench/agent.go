package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// agent is a process of the built binary.
type agent struct {
	*exec.Cmd
	log string // its output
}

// start starts an agent that runs the pipelines. The agent is killed when ctx ends, so that it does not fill the disk
// after an interrupt.
func (b *bench) start(ctx context.Context, pipelines ...string) (*agent, error) {
	for i, text := range pipelines {
		file := filepath.Join(b.dir, "pipelines", fmt.Sprintf("p%d.yaml", i))
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	arguments := b.arguments
	if arguments == nil {
		arguments = []string{"--api.http.address", "127.0.0.1:0"}
	}
	a := &agent{Cmd: b.command(ctx, append([]string{"run", "--connectors.path", b.connectors}, arguments...)...),
		log: b.path("log")}
	out, err := os.Create(a.log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	a.Dir, a.Stdout, a.Stderr = b.dir, out, out
	return a, a.Start()
}

// path returns the path of a file of the run.
func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

// stop ends the agent gracefully. err is the error of the measurement, if any.
func (a *agent) stop(err error) error {
	_ = a.Process.Signal(syscall.SIGINT)
	if err = errors.Join(err, a.Wait()); err != nil {
		logged, _ := os.ReadFile(a.log)
		return fmt.Errorf("%w; it logged:\n%s", err, logged[max(0, len(logged)-2000):])
	}
	return nil
}

var ready = regexp.MustCompile(`API ready.* address=(\S+)`)

// address returns the address of the agent's API.
func (a *agent) address(ctx context.Context) (string, error) {
	var found [][]byte
	err := await(ctx, "the API", func() bool {
		logged, _ := os.ReadFile(a.log)
		found = ready.FindSubmatch(logged)
		return found != nil
	})
	if err != nil {
		return "", err
	}
	return string(found[1]), nil
}

// peak returns the peak resident set of the agent, in MiB.
func (a *agent) peak() (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.Process.Pid))
	if err != nil {
		return 0, err
	}
	return memoryIn(string(status), "VmHWM")
}

// usage is CPU time used since the start.
type usage struct {
	agent, connectors time.Duration
}

func (u usage) minus(v usage) usage { return usage{u.agent - v.agent, u.connectors - v.connectors} }

// usage returns the CPU time that the agent and its connector processes have used.
func (a *agent) usage() (u usage, err error) {
	if u.agent, _, err = cpuTime(a.Process.Pid); err != nil {
		return u, err
	}
	all, err := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if used, parent, err := cpuTime(pid); err == nil && parent == a.Process.Pid {
			u.connectors += used
		}
	}
	return u, err
}

// cpuTime returns the CPU time of a process, and the parent's id.
func cpuTime(pid int) (used time.Duration, parent int, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // from the third on
	parent, _ = strconv.Atoi(string(fields[1]))
	for _, field := range fields[11:13] {
		ticks, err := strconv.Atoi(string(field))
		if err != nil {
			return 0, 0, err
		}
		used += time.Duration(ticks) * time.Second / 100 // the kernel reports them in hundredths
	}
	return used, parent, nil
}

// timeout limits the time until something begins.
const timeout = 2 * time.Minute

// await polls until done returns true.
func await(ctx context.Context, what string, done func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("waited too long for %s", what))
	defer cancel()
	if !wait.Until(ctx, done) {
		return context.Cause(ctx)
	}
	return nil
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
