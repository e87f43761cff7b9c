package main

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// containers compares log collectors as VictoriaMetrics' benchmark does, without Kubernetes: they read the logs of 100
// pods and send them to a server that counts them. They run on one CPU; what writes and counts runs on the others.
var containers = suite{
	name: "containers",
	title: "Logs of 100 pods in the CRI format, sent to a server. All logs are there at the start, or 10,000 are " +
		"written per second and the files are rotated. Programs run on one CPU",
	columns: []column{{name: "logs", format: "%.0f", total: true}, {name: "logs/s", format: "%.0f"},
		{name: "CPU µs/log", format: "%.2f"}, {name: "CPU %", format: "%.1f"}, {name: "peak MiB", format: "%.0f"},
		{name: "MiB without files", format: "%.0f"}, {name: "missing", format: "%.0f", total: true},
		{name: "repeated", format: "%.0f", total: true}, {name: "torn", format: "%.0f", total: true}},
	cases: collectorCases(),
}

// collector is a program that sends logs of containers, with its configuration.
type collector struct {
	name   string
	rival  *rival // nil: this agent
	config func(dir string, r *receiver) string
}

var collectors = []collector{
	{ours, nil, ourContainers}, {"vlagent", &vlagent, vlagentContainers}, {"Telegraf", &telegrafHTTP, telegrafContainers},
	{"syslog-ng", &syslogNGHTTP, syslogNGContainers}, {"rsyslog, over TCP", &rsyslog, rsyslogContainers},
}

// logsPerSecond is the rate of the cases with rotation.
const logsPerSecond = 10_000

func collectorCases() (cases []testCase) {
	for _, c := range collectors {
		cases = append(cases, testCase{name: "all at once: " + c.name, needs: c.rival,
			measure: func(ctx context.Context, b *bench) ([]float64, error) {
				return b.collect(ctx, c, func(_ context.Context, p *pods) error { return p.writeAll(b.records / numberOfPods) },
					nil)
			}})
	}
	for _, c := range collectors {
		cases = append(cases, testCase{name: "10,000/s: " + c.name, again: c.rival == nil, needs: c.rival,
			measure: func(ctx context.Context, b *bench) ([]float64, error) {
				return b.collect(ctx, c, nil, func(ctx context.Context, p *pods) error {
					return p.writeAt(ctx, logsPerSecond, b.seconds)
				})
			}})
	}
	return cases
}

// collect runs a collector on the logs that are written before it starts and while it runs.
func (b *bench) collect(
	ctx context.Context, c collector, before, during func(context.Context, *pods) error,
) (_ []float64, err error) {
	r, err := newReceiver()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	p, err := newPods(b.dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	if before != nil {
		if err := before(ctx, p); err != nil {
			return nil, err
		}
	}
	if err := moveTo(ctx, "1-"+strconv.Itoa(max(1, runtime.NumCPU()-1))); err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, moveTo(context.WithoutCancel(ctx), "0-"+strconv.Itoa(runtime.NumCPU()-1)))
	}()
	pid, stop, err := b.startCollector(ctx, c, r)
	if err != nil {
		return nil, err
	}
	f, err := b.watchCollector(ctx, pid, r, p, during)
	if err := stop(err); err != nil {
		var instead unmeasured
		if c.rival != nil && ctx.Err() == nil && !errors.As(err, &instead) {
			err = unmeasured(err.Error())
		}
		return nil, err
	}
	missing := r.missing(p.written())
	r.mu.Lock()
	defer r.mu.Unlock()
	if missing+r.repeated+r.torn > 0 && c.rival == nil {
		return nil, fmt.Errorf("%d logs are missing, %d are repeated, %d are torn; the first wrong request: %w", missing,
			r.repeated, r.torn, r.wrong)
	}
	cpu := 100 * f.used.agent.Seconds() / f.took.Seconds()
	return []float64{f.records, f.perSecond(), f.perRecord(f.used.agent), cpu, f.peak, f.own, float64(missing),
		float64(r.repeated), float64(r.torn)}, nil
}

// written returns how many logs each pod has written.
func (p *pods) written() (all []int) {
	for _, one := range p.all {
		all = append(all, one.next)
	}
	return all
}

// watchCollector measures a collector from the first log that arrives to the last.
func (b *bench) watchCollector(
	ctx context.Context, pid int, r *receiver, p *pods, during func(context.Context, *pods) error,
) (footprint, error) {
	written := make(chan error, 1)
	if during == nil {
		written <- nil
	} else {
		go func() { written <- during(ctx, p) }()
	}
	var failed error
	over := false
	f, err := b.until(ctx, pid, progress{
		size: func() int64 { return int64(r.count()) },
		arrived: func() bool {
			total := 0
			for _, n := range p.written() {
				total += n
			}
			return r.count() >= total
		},
		goesOn: func() bool {
			select {
			case failed = <-written:
				over = true
			default:
			}
			return !over
		},
	})
	if !over {
		failed = <-written
	}
	f.records = float64(r.count())
	return f, errors.Join(err, failed)
}

// startCollector starts a collector. stop ends it, prints its log after an error of the measurement, and returns this
// error.
func (b *bench) startCollector(
	ctx context.Context, c collector, r *receiver,
) (pid int, stop func(error) error, err error) {
	alone := *b
	alone.pinned, alone.connectors = true, b.path("none") // their specifications would be read meanwhile
	if c.rival == nil {
		a, err := alone.start(ctx, c.config(b.dir, r))
		if err != nil {
			return 0, nil, err
		}
		return a.Process.Pid, a.stop, nil
	}
	api := httptest.NewServer(kubernetes{})
	cmd, err := c.rival.command(ctx, b, func(dir string, _ int) string { return c.config(dir, r) })
	if err == nil {
		err = os.WriteFile(b.path("kubeconfig"), []byte(kubeConfig(api.URL)), 0o600)
	}
	if err == nil {
		err = pin(cmd)
	}
	if err != nil {
		api.Close()
		return 0, nil, err
	}
	log, err := os.Create(b.path("log"))
	if err != nil {
		api.Close()
		return 0, nil, err
	}
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, "KUBECONFIG="+b.path("kubeconfig"))
	cmd.Dir, cmd.Stdout, cmd.Stderr = b.dir, log, log
	if err := cmd.Start(); err != nil {
		api.Close()
		return 0, nil, errors.Join(err, log.Close())
	}
	return cmd.Process.Pid, func(err error) error {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		patience := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait() // the exit code of another program does not matter
		patience.Stop()
		api.CloseClientConnections()
		api.Close()
		if err = errors.Join(err, log.Close()); err != nil {
			logged, _ := os.ReadFile(b.path("log"))
			fmt.Fprintf(os.Stderr, "%s: %v; it logged:\n%s\n", c.name, err, logged[max(0, len(logged)-2000):])
		}
		return err
	}, nil
}

// pin makes a command run on the first CPU alone.
func pin(cmd *exec.Cmd) error {
	taskset, err := exec.LookPath("taskset")
	if err != nil {
		return err
	}
	cmd.Args = append([]string{taskset, "-c", "0", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = taskset
	return nil
}

// moveTo makes this process run on a list of CPUs.
func moveTo(ctx context.Context, cpus string) error {
	if runtime.NumCPU() == 1 {
		return nil
	}
	return quietly(ctx, ".", nil, "taskset", "-a", "-c", "-p", cpus, strconv.Itoa(os.Getpid()))
}

func ourContainers(_ string, r *receiver) string {
	return pipeline(0, source("builtin:file", "path: "+filepath.Join("pods", "*", "*", "*.log")+", format: cri"),
		destination("builtin:http", "url: "+r.url()+", body.format: lines, batch.maxRecords: 10000, "+
			`sdk.record.format: template, sdk.record.format.options: '{"pod":{{ index .Metadata "k8s.pod.name" | toJson }},`+
			`"namespace":{{ index .Metadata "k8s.namespace.name" | toJson }},`+
			`"container":{{ index .Metadata "k8s.container.name" | toJson }},"log":{{ printf "%s" .Payload.After }}}'`))
}
