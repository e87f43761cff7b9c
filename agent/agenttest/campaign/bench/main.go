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
	"errors"
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
	// after prints what follows from the results, by case and round; nil: nothing.
	after func(s suite, cases []testCase, runs [][][]float64)
}

// testCase is a line of a table.
type testCase struct {
	name string
	// measure runs the case once. It returns a value for each column of the table.
	measure func(ctx context.Context, b *bench) ([]float64, error)
	long    bool   // it takes much time or space, and runs only on request
	again   bool   // it runs twice per round, as the first case does
	needs   *rival // a program that -rivals installs; nil: none
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
	records    int       // of the flows of rivals
	ours       []float64 // figures of the agent's last run in these
	bare       float64   // records/s of the last case without an agent
	group      string    // directory of the control group for agents, empty for none
	pinned     bool      // agents run on the first CPU
}

// suites returns all suites, including the comparison with a Conduit if its executable is named.
func suites(conduit string) []suite {
	all := []suite{throughput, sizes, scale, small, memory, quota, observers, deadLetters, host, latency,
		fairness, sharing, ackLag, loop, processors, stages, kept, modules, connectors, peers, rivals(conduit), containers}
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
	install := flag.Bool("rivals", false, "build or unpack programs of the cases that are not in the cache directory")
	records := flag.Int("records", 1_000_000, "how many records the cases of other programs move")
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
	if *install {
		for _, r := range needed(selected) {
			if err := r.install(ctx); err != nil {
				log.Print(err) // the table says that it is missing
			}
		}
	}
	b := &bench{seconds: time.Duration(*seconds * float64(time.Second)), records: *records}
	err := b.runAll(ctx, selected, *rounds, *dir)
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

// needed returns the other programs of the cases.
func needed(selected []suite) (all []*rival) {
	for _, s := range selected {
		for _, c := range s.cases {
			if c.needs != nil && !slices.Contains(all, c.needs) {
				all = append(all, c.needs)
			}
		}
	}
	return all
}

// runAll builds the binaries, and measures the cases of all suites.
func (b *bench) runAll(ctx context.Context, selected []suite, rounds int, dir string) error {
	work, err := os.MkdirTemp(dir, "conduit-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	b.binary, b.connectors = filepath.Join(work, "conduit"), filepath.Join(work, "connectors")
	b.loop, b.kill, b.dir = filepath.Join(work, "loop"), filepath.Join(work, "kill"), filepath.Join(work, "run")
	if err := b.build(ctx); err != nil {
		return err
	}
	fmt.Printf("%d CPUs, %s %s/%s, %d rounds of %v, load before: %s\n",
		runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH, rounds, b.seconds, load())
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
		filepath.Join(b.connectors, "conduit-connector-generator"): {"build", "-ldflags", "-s -w", "-o",
			b.connectors + "/conduit-connector-generator", connector},
	} {
		if err := buildOnce(ctx, target, args...); err != nil {
			return err
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

// buildOnce runs the go command with args to build target, unless it is there.
func buildOnce(ctx context.Context, target string, args ...string) error {
	if exists(target) {
		return nil
	}
	build := exec.CommandContext(ctx, "go", args...)
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("cannot build %s: %w", target, err)
	}
	return nil
}

// buildTest builds the test binary of a package, unless it is there.
func buildTest(ctx context.Context, target, path string) error {
	return buildOnce(ctx, target, "test", "-c", "-o", target, repository+path)
}

// controlled is the end of the name of a case that runs again.
const controlled = " (A/A control)"

// run measures the cases of s and prints the table.
func (b *bench) run(ctx context.Context, s suite, rounds int) error {
	cases := slices.Clone(s.cases)
	for i, c := range s.cases {
		if i == 0 || c.again {
			c.name += controlled
			cases = append(cases, c)
		}
	}
	runs, instead := make([][][]float64, len(cases)), make([]unmeasured, len(cases))
	for range rounds {
		for i, c := range cases {
			if instead[i] != "" {
				continue
			}
			values, err := b.measure(ctx, c)
			if errors.As(err, &instead[i]) {
				runs[i] = nil
				continue
			}
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			runs[i] = append(runs[i], values)
		}
	}
	fmt.Printf("\n%s (load after: %s)\n\n", s.title, load())
	head(s.columns)
	for i, c := range cases {
		if instead[i] != "" {
			fmt.Printf("| %s | %s |%s\n", c.name, instead[i], strings.Repeat(" |", len(s.columns)-1))
			continue
		}
		line(c.name, s.columns, runs[i])
	}
	if s.after != nil {
		s.after(s, cases, runs)
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
