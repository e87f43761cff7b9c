package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// ours is the name of the agent in the table of rivals.
const ours = "this agent"

// rivals moves the same data with the agent and with other programs, each with the configuration that suits it. A
// rival that is not installed has a line without figures. conduit is the executable of a Conduit, "" for none.
func rivals(conduit string) suite {
	s := suite{
		name: "rivals",
		title: "The agent and other programs, the same data. The agent alone syncs the output before it " +
			"acknowledges; " + pinned(),
		columns: []column{{name: "records/s", format: "%.0f"}, {name: "CPU µs/record", format: "%.2f"},
			{name: "peak MiB", format: "%.0f"}, {name: "MiB without files", format: "%.0f"},
			{name: "records/s, of the agent's", format: "%.2f"}, {name: "CPU time, of the agent's", format: "%.2f"},
			{name: "peak, of the agent's", format: "%.2f"}, {name: "MiB without files, of the agent's", format: "%.2f"}},
		after: printLosses,
	}
	for _, m := range movings {
		s.cases = append(s.cases, testCase{name: m.name + ": " + ours, again: true,
			measure: func(ctx context.Context, b *bench) ([]float64, error) {
				f, err := b.byAgent(ctx, m)
				if err == nil {
					err = m.complete(b)
				}
				b.ours = f.figures()
				return append(slices.Clone(b.ours), 1, 1, 1, 1), err
			}})
		programs := m.programs
		if conduit != "" {
			programs = append(slices.Clone(programs), theConduit(conduit, m))
		}
		for _, p := range programs {
			s.cases = append(s.cases, testCase{name: m.name + ": " + p.name, needs: p.rival,
				measure: func(ctx context.Context, b *bench) ([]float64, error) { return b.byRival(ctx, m, p) }})
		}
	}
	return s
}

// moving is a flow of data that several programs can make. They read input.log in their working directory, if there is
// an input, and write output0.jsonl.
type moving struct {
	name     string
	lines    func(path string, n int) error // writes the input; nil: there is none
	pipeline func(n int) string             // of n records, for the agent and for Conduit
	sum      func(io.Reader) (digest, error)
	want     func(digest) digest // from the sum of the input; nil: the same
	programs []program
}

// program is a rival with the configuration for a flow.
type program struct {
	name string
	// config returns the configuration for n records in dir.
	config func(dir string, n int) string
	rival  *rival
}

// movings are the flows, the fastest first.
var movings = []moving{
	{
		name: "plain lines, file → file", lines: writeLines, sum: sumBytes,
		pipeline: func(int) string {
			return pipeline(0, source("builtin:file", "path: input.log"),
				toTemplate(`{{ printf "%s" .Payload.After }}`))
		},
		programs: []program{{"syslog-ng", syslogNGLines, &syslogNG}, {"rsyslog", rsyslogLines, &rsyslog},
			{"Telegraf", telegrafLines, &telegraf}, {"Benthos", benthosLines, &benthos}},
	},
	{
		name: "JSON with a field added, file → file", lines: writeObjects, sum: sumObjects, want: withField,
		pipeline: func(int) string {
			return pipeline(0, source("builtin:file", "path: input.log"), toTemplate(`{{ toJson .Payload.After }}`),
				"processors:",
				"  - {id: decode, plugin: json.decode, settings: {field: .Payload.After}}",
				"  - {id: set, plugin: field.set, settings: {field: .Payload.After.env, value: prod}}")
		},
		programs: []program{{"syslog-ng", syslogNGObjects, &syslogNG}, {"rsyslog", rsyslogObjects, &rsyslog},
			{"Telegraf", telegrafObjects, &telegraf}, {"Benthos", benthosObjects, &benthos}},
	},
	{
		name: "generator → file", sum: countLines,
		pipeline: func(n int) string {
			return pipeline(0, source("builtin:generator", fmt.Sprintf("recordCount: %d, %s", n, fast)),
				toTemplate(`{{ toJson .Payload.After }}`))
		},
		programs: []program{{"Benthos", benthosGenerator, &benthos}},
	},
}

// toTemplate is the destination of the flows.
func toTemplate(text string) string {
	return destination("builtin:file", "path: "+outputOf(0)+
		", sdk.record.format: template, sdk.record.format.options: '"+text+"'")
}

// unmeasured is an error that replaces the figures of a case in the table.
type unmeasured string

func (u unmeasured) Error() string { return string(u) }

// byAgent measures the agent.
func (b *bench) byAgent(ctx context.Context, m moving) (f footprint, err error) {
	if err := m.prepare(ctx, b, b.binary); err != nil {
		return f, err
	}
	alone := *b
	alone.connectors = b.path("none") // their specifications would be read meanwhile
	a, err := alone.start(ctx, m.pipeline(b.records))
	if err != nil {
		return f, err
	}
	f, err = b.until(ctx, a.Process.Pid, b.toFile())
	return f, a.stop(err)
}

// byRival measures a rival. The columns are the figures, and their ratios to the figures of the last run of the agent.
func (b *bench) byRival(ctx context.Context, m moving, p program) ([]float64, error) {
	cmd, err := p.rival.command(ctx, b, p.config)
	if err != nil {
		return nil, err
	}
	if err := m.prepare(ctx, b, cmd.Path); err != nil {
		return nil, err
	}
	log, err := os.Create(b.path("log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Dir, cmd.Stdout, cmd.Stderr = b.dir, log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	f, err := b.until(ctx, cmd.Process.Pid, b.toFile())
	_ = cmd.Process.Signal(syscall.SIGTERM)
	patience := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait() // the exit code of another program does not matter
	patience.Stop()
	if err == nil {
		err = m.complete(b)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		logged, _ := os.ReadFile(b.path("log"))
		fmt.Fprintf(os.Stderr, "%s: %v; it logged:\n%s\n", p.name, err, logged[max(0, len(logged)-2000):])
		return nil, unmeasured(err.Error())
	}
	values := f.figures()
	for i, v := range values {
		share := math.NaN() // when the agent's case was not chosen
		if b.ours != nil {
			share = v / b.ours[i]
		}
		values = append(values, share)
	}
	return values, nil
}

// footprint is the flow through a program with its memory.
type footprint struct {
	flow
	own float64 // most memory without that of files, in MiB
}

// figures are the columns of a program.
func (f footprint) figures() []float64 {
	return []float64{f.perSecond(), f.perRecord(f.used.agent), f.peak, f.own}
}

// prepare writes the input. It takes the executable of the program out of the page cache, so that its pages are those
// that the kernel reads for it: a file that was just written would be mapped as a whole.
func (m moving) prepare(ctx context.Context, b *bench, executable string) error {
	if m.lines != nil {
		if err := m.lines(b.path("input.log"), b.records); err != nil {
			return err
		}
	}
	return uncache(ctx, executable)
}

// complete reports an output that does not have every record once, in order, with the right content.
func (m moving) complete(b *bench) error {
	want := digest{records: b.records}
	if m.lines != nil {
		var err error
		if want, err = sumFile(b.path("input.log"), m.sum); err != nil {
			return err
		}
		if m.want != nil {
			want = m.want(want)
		}
	}
	got, err := sumFile(b.path(outputOf(0)), m.sum)
	switch {
	case err != nil:
		return err
	case got.records != want.records:
		return fmt.Errorf("%d of %d records arrived", got.records, want.records)
	case got.sum != want.sum:
		return errors.New("the output has another checksum")
	}
	return nil
}

// How long an output may stay unchanged until the program counts as done: shortly if all has arrived.
const (
	quiet   = time.Second
	stalled = 20 * time.Second
)

// progress reports on the output of a process.
type progress struct {
	size    func() int64 // it grows
	arrived func() bool  // reports whether the output is complete
	goesOn  func() bool  // reports whether there is more input to come; nil: there is not
}

// toFile is the progress of a process that writes the output of a flow.
func (b *bench) toFile() progress {
	out := output{b.path(outputOf(0))}
	return progress{size: out.size, arrived: func() bool { return out.countable() >= b.records }}
}

// until measures the process from its first output until the output is complete and the process quiet, or until the
// process ends. The time ends with the last output, CPU time and memory include what follows.
func (b *bench) until(ctx context.Context, pid int, out progress) (f footprint, err error) {
	f.records = float64(b.records)
	var begin, changed time.Time
	var first, last int64
	var before, after time.Duration
	started := time.Now()
	for ended := false; !ended; sleep(ctx, time.Millisecond) {
		if ctx.Err() != nil {
			return f, ctx.Err()
		}
		if after, ended, err = processTime(pid); err != nil {
			return f, err
		}
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if peak, err := memoryIn(string(status), "VmHWM"); err == nil { // a process that ended has none
			own, _ := memoryIn(string(status), "RssAnon")
			f.peak, f.own = peak, max(f.own, own)
		}
		now, size := time.Now(), out.size()
		switch {
		case begin.IsZero():
			begin, changed, before, first, last = now, now, after, size, size
			if size == 0 {
				begin = time.Time{}
			}
		case size != last:
			changed, last = now, size
		case out.goesOn != nil && out.goesOn():
		case now.Sub(changed) > stalled, now.Sub(changed) > quiet && out.arrived():
			ended = true
		}
		switch {
		case !begin.IsZero():
		case ended:
			return f, errors.New("it ended without output")
		case now.Sub(started) > timeout:
			return f, fmt.Errorf("no output in %v", timeout)
		}
	}
	f.took, f.used.agent = changed.Sub(begin), after-before
	f.share = float64(last-first) / float64(last)
	if f.share == 0 {
		return f, errors.New("all records arrived at once: use more with -records")
	}
	return f, nil
}

// processTime returns the CPU time that a child process has used, and whether it ended.
func processTime(pid int) (used time.Duration, ended bool, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false, err
	}
	_, state, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')'):], []byte(" "))
	used, _, err = cpuTime(pid)
	return used, state[0] == 'Z', err
}

// digest is the number of records of a file, and a checksum of their content and order.
type digest struct {
	records int
	sum     string
}

func sumFile(path string, sum func(io.Reader) (digest, error)) (digest, error) {
	f, err := os.Open(path)
	if err != nil {
		return digest{}, err
	}
	defer f.Close()
	return sum(f)
}

// sumBytes is the digest of lines, byte for byte.
func sumBytes(r io.Reader) (digest, error) {
	h, n := sha256.New(), 0
	for buf := make([]byte, 1<<20); ; {
		read, err := r.Read(buf)
		h.Write(buf[:read])
		n += bytes.Count(buf[:read], []byte{'\n'})
		if err == io.EOF {
			return digest{n, hexOf(h)}, nil
		}
		if err != nil {
			return digest{}, err
		}
	}
}

// countLines is a digest without the content.
func countLines(r io.Reader) (digest, error) {
	d, err := sumBytes(r)
	return digest{records: d.records}, err
}

// sumObjects is the digest of the JSON objects of lines, whatever the order of their fields and their spaces. It
// does not include the field env, but requires its value in all objects or in none.
func sumObjects(r io.Reader) (digest, error) {
	h, n, env := sha256.New(), 0, 0
	scanner := bufio.NewScanner(r)
	for ; scanner.Scan(); n++ {
		var object map[string]any
		if err := json.Unmarshal(scanner.Bytes(), &object); err != nil {
			return digest{}, fmt.Errorf("line %d: %w: %s", n+1, err, scanner.Bytes())
		}
		if object["env"] == "prod" {
			env++
			delete(object, "env")
		}
		text, err := json.Marshal(object) // sorts the fields
		if err != nil {
			return digest{}, err
		}
		h.Write(append(text, '\n'))
	}
	d := digest{n, hexOf(h)}
	switch env {
	case 0:
	case n:
		d = withField(d)
	default:
		d.sum = ""
	}
	return d, scanner.Err()
}

// withField returns the digest of the same objects with the field env.
func withField(d digest) digest { return digest{d.records, d.sum + " with env"} }

func hexOf(h hash.Hash) string { return fmt.Sprintf("%x", h.Sum(nil)) }

// writeObjects writes n JSON objects of about 140 bytes.
func writeObjects(path string, n int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	for i := range n {
		fmt.Fprintf(w, `{"id":%d,"host":"host-%04d","app":"app%d","took":%d,"text":"request %d came from a browser and `+
			`went to the third server"}`+"\n", i, i%1000, i%99, i%777, i)
	}
	return w.Flush()
}

// theConduit is Conduit with the pipeline file of the agent.
func theConduit(path string, m moving) program {
	return program{"Conduit", func(_ string, n int) string { return m.pipeline(n) }, &rival{
		run: func(dir, config string) ([]string, error) {
			binary, err := filepath.Abs(path)
			if err != nil {
				return nil, err
			}
			if err := os.Rename(config, filepath.Join(dir, "pipelines", "p.yaml")); err != nil {
				return nil, err
			}
			return []string{binary, "run", "--api.enabled=false", "--db.type=sqlite", "--db.sqlite.path=conduit.db"},
				nil
		}}}
}

// printLosses prints in which columns a rival is better than the agent.
func printLosses(s suite, cases []testCase, runs [][][]float64) {
	if lost := losses(s.columns, cases, runs); len(lost) > 0 {
		fmt.Printf("\nWhere the agent is behind: %s.\n", strings.Join(lost, "; "))
	}
}

// losses returns for each case of a rival the columns in which it is better than the agent, by the medians of the
// rounds, and by more than the A/A control differs.
func losses(columns []column, cases []testCase, runs [][][]float64) (lost []string) {
	medianOf := func(name string, column int) float64 {
		i := slices.IndexFunc(cases, func(c testCase) bool { return c.name == name })
		if i < 0 || len(runs[i]) == 0 {
			return math.NaN()
		}
		var values []float64
		for _, r := range runs[i] {
			values = append(values, r[column])
		}
		slices.Sort(values)
		return values[(len(values)-1)/2]
	}
	shares := len(columns) / 2 // index of the first share
	for _, c := range cases {
		flow, name, _ := strings.Cut(c.name, ": ")
		if name == ours || name == ours+controlled {
			continue
		}
		for k := range shares {
			agent, control := medianOf(flow+": "+ours, k), medianOf(flow+": "+ours+controlled, k)
			better := medianOf(c.name, shares+k) - 1 // NaN if one is missing
			if k > 0 {
				better = -better // only of the rate more is better
			}
			if better > math.Abs(control/agent-1) {
				lost = append(lost, fmt.Sprintf("%s, %s: %s has %s of the agent's", flow, columns[k].name, name,
					number("%.2f", medianOf(c.name, shares+k))))
			}
		}
	}
	return lost
}
