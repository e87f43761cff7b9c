// Command bench measures the built binary from outside: records that arrived, processor time, memory, latency. It
// prints tables in Markdown. It reads /proc, so it requires Linux.
//
//	just bench -case sizes -rounds 5 -seconds 5
//
// Every round runs each case once, in turn, so that a temporary disturbance of the machine affects all cases. The
// first case of a table runs twice per round; the difference between the two is the noise below which a difference
// means nothing (the A/A control).
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// suite is a table of cases with the same measurements.
type suite struct {
	name    string
	title   string
	columns []column
	cases   []testCase
}

// testCase is a line of a table.
type testCase struct {
	name string
	// measure runs the case once. It returns a value for each column of the table.
	measure func(ctx context.Context, b *bench) ([]float64, error)
	long    bool // it takes much time or space, and runs only on request
}

// bench holds the environment and the duration of the measurements.
type bench struct {
	binary     string   // conduit
	arguments  []string // of another Conduit, nil for this agent
	connectors string   // directory of the executables
	loop       string   // the test binary of package e2e
	kill       string   // the test binary of package kill
	dir        string   // directory of the run; empty at its start
	seconds    time.Duration
	bare       float64 // records/s of the last case without an agent
	group      string  // directory of the control group for agents, empty for none
}

// suites returns all suites, including the comparison with a Conduit if its executable is named.
func suites(conduit string) []suite {
	all := []suite{throughput, sizes, scale, small, alone, memory, quota, observers, deadLetters, host, latency,
		fairness, sharing, ackLag, loop, processors, stages, modules, connectors, peers}
	if conduit != "" {
		all = append(all, beside(conduit))
	}
	return all
}

func main() {
	log.SetFlags(0)
	rounds := flag.Int("rounds", 3, "how often each case runs")
	seconds := flag.Float64("seconds", 1.5, "how long a run is measured")
	dir := flag.String("dir", os.TempDir(), "where the data goes")
	only := flag.String("case", "", `only cases that contain this in "TABLE: CASE"`)
	long := flag.Bool("long", false, "also the cases that take much time, memory and disk")
	list := flag.Bool("list", false, "list the cases")
	conduit := flag.String("conduit", "", "executable of a Conduit to run the same pipeline files with")
	flag.Parse()
	selected := choose(suites(*conduit), *only, *long)
	switch {
	case len(selected) == 0:
		log.Fatalf("no case is called %q; -list lists them", *only)
	case *list:
		for _, s := range selected {
			for _, c := range s.cases {
				fmt.Printf("%s: %s\n", s.name, c.name)
			}
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, selected, *rounds, time.Duration(*seconds*float64(time.Second)), *dir)
	switch {
	case ctx.Err() != nil:
		log.Fatal("interrupted")
	case err != nil:
		log.Fatal(err)
	}
}

// choose returns the suites with the requested cases.
func choose(all []suite, only string, long bool) []suite {
	var selected []suite
	for _, s := range all {
		s.cases = slices.DeleteFunc(slices.Clone(s.cases), func(c testCase) bool {
			return !strings.Contains(s.name+": "+c.name, only) || c.long && !long
		})
		if len(s.cases) > 0 {
			selected = append(selected, s)
		}
	}
	return selected
}

func run(ctx context.Context, selected []suite, rounds int, seconds time.Duration, dir string) error {
	work, err := os.MkdirTemp(dir, "conduit-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	b := &bench{binary: filepath.Join(work, "conduit"), connectors: filepath.Join(work, "connectors"),
		loop: filepath.Join(work, "loop"), kill: filepath.Join(work, "kill"), dir: filepath.Join(work, "run"),
		seconds: seconds}
	if err := b.build(ctx); err != nil {
		return err
	}
	fmt.Printf("%d CPUs, %s %s/%s, %d rounds of %v, load before: %s\n",
		runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH, rounds, seconds, load())
	for _, s := range selected {
		if err := b.run(ctx, s, rounds); err != nil {
			return fmt.Errorf("cannot measure %s: %w", s.name, err)
		}
	}
	return nil
}

// repository is the import path of the measured packages.
const repository = "github.com/conduit-agent/conduit"

func (b *bench) build(ctx context.Context) error {
	connector := repository + "/agent/agenttest/campaign/bench/connector"
	for target, args := range map[string][]string{
		b.binary: {"build", "-ldflags", "-s -w", "-o", b.binary, repository + "/cmd/conduit"},
		b.loop:   {"test", "-c", "-o", b.loop, repository + "/agent/agenttest/e2e"},
		b.kill:   {"test", "-c", "-o", b.kill, repository + "/agent/agenttest/campaign/kill"},
		filepath.Join(b.connectors, "conduit-connector-generator"): {"build", "-ldflags", "-s -w", "-o",
			b.connectors + "/conduit-connector-generator", connector},
	} {
		build := exec.CommandContext(ctx, "go", args...)
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("cannot build %s: %w", target, err)
		}
	}
	// The name of the executable selects the connector.
	for _, name := range []string{"file", "refusing", "timed"} {
		if err := os.Link(b.connectors+"/conduit-connector-generator",
			b.connectors+"/conduit-connector-"+name); err != nil {
			return err
		}
	}
	return nil
}

// run measures the cases of s and prints the table.
func (b *bench) run(ctx context.Context, s suite, rounds int) error {
	control := s.cases[0]
	control.name += " (A/A control)"
	cases := append(slices.Clone(s.cases), control)
	runs := make([][][]float64, len(cases))
	for range rounds {
		for i, c := range cases {
			values, err := b.measure(ctx, c)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			runs[i] = append(runs[i], values)
		}
	}
	fmt.Printf("\n%s (load after: %s)\n\n", s.title, load())
	head(s.columns)
	for i, c := range cases {
		line(c.name, s.columns, runs[i])
	}
	return nil
}

func (b *bench) measure(ctx context.Context, c testCase) ([]float64, error) {
	if err := os.MkdirAll(filepath.Join(b.dir, "pipelines"), 0o755); err != nil {
		return nil, err
	}
	defer os.RemoveAll(b.dir)
	return c.measure(ctx, b)
}

// load returns the known load averages.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if fields := strings.Fields(string(text)); err == nil && len(fields) > 1 {
		return strings.Join(fields[:2], " ")
	}
	return "unknown"
}
