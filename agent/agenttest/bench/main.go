// Command bench measures the built binary from outside: records that arrived in the
// output file per second, processor time per record and peak memory. Every round runs
// each case once; the first case runs twice a round, and the difference between the two
// is the noise below which a difference means nothing (the A/A control).
//
//	go run ./agent/agenttest/bench -rounds 5 -seconds 5
package main

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// testCase is what is measured: a number of pipelines of one kind.
type testCase struct {
	name        string
	source      string // YAML of the source connector
	destination string // YAML of the destination connector; empty for a file of each pipeline's own
	input       int    // lines of input to prepare; 0 when the source makes its own
	pipelines   int    // 0 for one
	executables bool   // the connectors run as processes
}

const made = "rate: 0, format.type: structured, format.options.id: int, format.options.name: string"

func generator(kind, settings string) string {
	return fmt.Sprintf(`
      - id: src
        type: source
        plugin: %s:generator
        settings: {%s}`, kind, settings)
}

const noSchemas = ", sdk.schema.extract.payload.enabled: false, sdk.schema.extract.key.enabled: false"

const fromFile = `
      - id: src
        type: source
        plugin: builtin:file
        settings: {path: input.log}`

var cases = []testCase{
	{name: "generator → file", source: generator("builtin", made+noSchemas)},
	{name: "generator → file, schemas", source: generator("builtin", made)},
	{name: "file → file", source: fromFile, input: 3_000_000},
	{name: "generator → log", source: generator("builtin", made), destination: `
      - id: dst
        type: destination
        plugin: builtin:log`},
	{name: "generator → file, 10 pipelines", source: generator("builtin", made), pipelines: 10},
	{name: "generator → file, executables", source: generator("standalone", made+noSchemas), executables: true},
	{name: "generator → file, executables, schemas", source: generator("standalone", made), executables: true},
	{name: "generator → file, executables, 1 a message", source: generator("standalone", made+noSchemas+", sdk.batch.size: 1"), executables: true},
}

const pipeline = `version: "2.2"
pipelines:
  - id: bench%d
    status: running
    connectors:%s%s
`

// toFile is the destination of pipeline n.
func (c *testCase) toFile(n int) string {
	if c.destination != "" {
		return c.destination
	}
	kind := "builtin"
	if c.executables {
		kind = "standalone"
	}
	return fmt.Sprintf(`
      - id: dst
        type: destination
        plugin: %s:file
        settings: {path: output%d.jsonl}`, kind, n)
}

// result is what one run gave.
type result struct {
	perSecond float64
	cpu       time.Duration // per record
	rss       int64         // bytes
}

func main() {
	log.SetFlags(0)
	rounds := flag.Int("rounds", 3, "how often each case runs")
	seconds := flag.Int("seconds", 5, "how long a run is measured")
	dir := flag.String("dir", os.TempDir(), "where the data goes")
	only := flag.String("run", "", "only cases whose name contains this")
	flag.Parse()
	if err := bench(*rounds, time.Duration(*seconds)*time.Second, *dir, *only); err != nil {
		log.Fatal(err)
	}
}

func bench(rounds int, d time.Duration, dir, only string) error {
	work, err := os.MkdirTemp(dir, "conduit-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	binary := filepath.Join(work, "conduit")
	connectors := filepath.Join(work, "connectors")
	for target, pkg := range map[string]string{
		binary: "./cmd/conduit",
		filepath.Join(connectors, "conduit-connector-generator"): "./agent/agenttest/bench/connector",
		filepath.Join(connectors, "conduit-connector-file"):      "./agent/agenttest/bench/connector",
	} {
		build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", target, pkg)
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("cannot build %s: %w", pkg, err)
		}
	}
	selected := slices.DeleteFunc(slices.Clone(cases), func(c testCase) bool { return !strings.Contains(c.name, only) })
	if len(selected) == 0 {
		return fmt.Errorf("no case is called %q", only)
	}
	control := selected[0]
	control.name += " (A/A control)"
	selected = append(selected, control)
	results := make([][]result, len(selected))
	for range rounds {
		for i, c := range selected {
			r, err := measure(binary, connectors, filepath.Join(work, "run"), c, d)
			if err != nil {
				return fmt.Errorf("cannot measure %s: %w", c.name, err)
			}
			results[i] = append(results[i], r)
		}
	}
	fmt.Printf("%-40s %32s %24s %10s\n", "case", "records/s: median (min–max)", "CPU µs/record (min–max)", "peak MiB")
	for i, c := range selected {
		report(c.name, results[i])
	}
	return nil
}

func report(name string, runs []result) {
	speed := sorted(runs, func(r result) float64 { return r.perSecond })
	cpu := sorted(runs, func(r result) float64 { return float64(r.cpu) / float64(time.Microsecond) })
	rss := sorted(runs, func(r result) float64 { return float64(r.rss) / (1 << 20) })
	last := len(runs) - 1
	fmt.Printf("%-40s %12.0f (%.0f–%.0f) %12.2f (%.2f–%.2f) %10.0f\n", name,
		speed[last/2], speed[0], speed[last], cpu[last/2], cpu[0], cpu[last], rss[last])
}

func sorted(runs []result, f func(result) float64) []float64 {
	var v []float64
	for _, r := range runs {
		v = append(v, f(r))
	}
	slices.SortFunc(v, cmp.Compare[float64])
	return v
}

// measure runs one case in a fresh directory.
func measure(binary, connectors, dir string, c testCase, d time.Duration) (result, error) {
	if err := os.MkdirAll(filepath.Join(dir, "pipelines"), 0o755); err != nil {
		return result{}, err
	}
	defer os.RemoveAll(dir)
	if err := writeInput(filepath.Join(dir, "input.log"), c.input); err != nil {
		return result{}, err
	}
	var outputs []string
	for n := range max(c.pipelines, 1) {
		file := filepath.Join(dir, "pipelines", fmt.Sprintf("bench%d.yaml", n))
		if err := os.WriteFile(file, fmt.Appendf(nil, pipeline, n, c.source, c.toFile(n)), 0o644); err != nil {
			return result{}, err
		}
		outputs = append(outputs, filepath.Join(dir, fmt.Sprintf("output%d.jsonl", n)))
	}
	log := filepath.Join(dir, "log")
	if c.destination != "" {
		outputs = []string{log}
	}
	cmd := exec.Command(binary, "run", "--api.http.address", "127.0.0.1:0")
	if c.executables {
		cmd.Args = append(cmd.Args, "--connectors.path", connectors)
	}
	out, err := os.Create(log)
	if err != nil {
		return result{}, err
	}
	defer out.Close()
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	if err := cmd.Start(); err != nil {
		return result{}, err
	}
	bytesPerSecond, err := flow(outputs, c.input, d)
	_ = cmd.Process.Signal(syscall.SIGINT)
	if werr := cmd.Wait(); err == nil {
		err = werr
	}
	if err != nil {
		return result{}, fmt.Errorf("%w; it logged:\n%s", err, tail(log))
	}
	lines, size, err := count(outputs)
	if err != nil {
		return result{}, err
	}
	// The plugins' share is in it: they are children that the agent waited for.
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	cpu := cmd.ProcessState.SystemTime() + cmd.ProcessState.UserTime()
	return result{
		perSecond: bytesPerSecond * float64(lines) / float64(size),
		cpu:       cpu / time.Duration(lines),
		rss:       usage.Maxrss << 10,
	}, nil
}

// tail returns the end of a file.
func tail(path string) []byte {
	b, _ := os.ReadFile(path)
	return b[max(0, len(b)-2000):]
}

// flow returns how many bytes per second arrive in the file. Given a number of input
// lines it measures until that many have arrived, else for the time d after a warm-up.
func flow(outputs []string, lines int, d time.Duration) (float64, error) {
	begin, from, err := await(outputs, func(size int64, idle time.Duration) bool { return size > 0 })
	if err != nil {
		return 0, err
	}
	if lines == 0 {
		time.Sleep(time.Second)
		begin, from = time.Now(), size(outputs)
		time.Sleep(d)
		return float64(size(outputs)-from) / time.Since(begin).Seconds(), nil
	}
	end, to, err := await(outputs, func(_ int64, idle time.Duration) bool { return idle > time.Second })
	if err != nil {
		return 0, err
	}
	if n, _, err := count(outputs); err != nil || n != lines {
		return 0, errors.Join(err, fmt.Errorf("%d of %d lines arrived", n, lines))
	}
	return float64(to-from) / end.Sub(begin).Seconds(), nil
}

// await polls the file's size until done says so, and returns when it last changed.
func await(paths []string, done func(size int64, idle time.Duration) bool) (changed time.Time, last int64, err error) {
	deadline := time.Now().Add(2 * time.Minute)
	changed = time.Now()
	for time.Now().Before(deadline) {
		if s := size(paths); s != last {
			changed, last = time.Now(), s
		}
		if done(last, time.Since(changed)) {
			return changed, last, nil
		}
		time.Sleep(2 * time.Millisecond)
	}
	return changed, last, errors.New("nothing arrived for too long")
}

// size returns the size of the files together.
func size(paths []string) (total int64) {
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil {
			total += info.Size()
		}
	}
	return total
}

// count returns the number of lines and bytes of the files together.
func count(paths []string) (lines int, bytesRead int64, err error) {
	for _, path := range paths {
		l, b, err := countFile(path)
		if err != nil {
			return 0, 0, err
		}
		lines, bytesRead = lines+l, bytesRead+b
	}
	return lines, bytesRead, nil
}

func countFile(path string) (lines int, bytesRead int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	buf := make([]byte, 1<<20)
	for {
		n, err := f.Read(buf)
		lines += bytes.Count(buf[:n], []byte{'\n'})
		bytesRead += int64(n)
		if err == io.EOF {
			return lines, bytesRead, nil
		}
		if err != nil {
			return 0, 0, err
		}
	}
}

// writeInput writes n lines of 140 bytes.
func writeInput(path string, n int) error {
	if n == 0 {
		return nil
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var buf []byte
	for i := range n {
		start := len(buf)
		buf = fmt.Appendf(buf, `2026-01-02T03:04:05Z host-%04d app[%d]: request %d took %d ms `, i%1000, i%99, i, i%777)
		for len(buf)-start < 139 {
			buf = append(buf, 'x')
		}
		buf = append(buf, '\n')
		if len(buf) > 1<<20 || i == n-1 {
			if _, err := f.Write(buf); err != nil {
				return err
			}
			buf = buf[:0]
		}
	}
	return nil
}
