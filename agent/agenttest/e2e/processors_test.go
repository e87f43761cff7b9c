package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/effort"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/spec"
)

// output is a record in an output file.
type output struct {
	Metadata map[string]string
	Payload  struct{ After map[string]any }
}

// outputsIn returns the records in a file, without a torn last line.
func outputsIn(t *testing.T, path string) (all []output) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		var m output
		if json.Unmarshal(line, &m) == nil {
			all = append(all, m)
		}
	}
	return all
}

// lastOutput returns the last record in a file, the zero value when there is none. It reads no more than the end of the
// file, so that waiting for a record costs the same however long the file is.
func lastOutput(t *testing.T, path string) output {
	t.Helper()
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return output{}
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const end = 1 << 20
	b, err := io.ReadAll(io.NewSectionReader(f, max(0, fileSize(path)-end), end))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range slices.Backward(bytes.SplitAfter(b, []byte("\n"))) {
		var last output
		if json.Unmarshal(line, &last) == nil {
			return last
		}
	}
	return output{}
}

// everywhere is a pipeline with processors at all three places.
const everywhere = `version: "2.2"
pipelines:
  - id: p
    status: running
    processors:
      - id: mark
        plugin: field.set
        settings: {field: .Metadata.mark, value: "%[2]s"}
      - id: odd
        plugin: filter
        condition: '{{ eq .Metadata.drop "yes" }}'
    connectors:
      - id: src
        type: source
        plugin: builtin:generator
        settings: {rate: 1000, format.type: structured, format.options.n: int}
        processors:
          - id: origin
            plugin: field.set
            settings: {field: .Metadata.drop, value: "no"}
      - id: dst
        type: destination
        plugin: builtin:file
        settings: {path: %[1]s/p.jsonl}
        processors:
          - id: twice
            plugin: clone
            settings: {count: 1}
`

// A pipeline file with processors at all three places runs, its processors are changed
// while it runs, and what they count is among the metrics.
func TestProcessorsOfAPipelineFile(t *testing.T) {
	t.Parallel()
	dir := agenttest.NewDir(t)
	a := agenttest.Start(t, dir)
	text := func(value string) string { return fmt.Sprintf(everywhere, dir, value) }
	last := func(mark string) bool {
		all := outputsIn(t, a.Path("p.jsonl"))
		return len(all) > 0 && all[len(all)-1].Metadata["mark"] == mark
	}
	a.Save("p.yaml", text("one"))
	a.WaitPhase("p", spec.PhaseRunning, 1)
	a.Wait("records", func() bool { return last("one") })
	a.Save("p.yaml", text("two"))
	a.Wait("records of the other version", func() bool { return last("two") })
	if s := a.State("p"); s.Failures > 0 {
		t.Errorf("it failed: %s", s.Error)
	}
	for _, series := range []string{
		`conduit_processor_records_total{component_id="p:mark",pipeline_name="p",processor="field.set",result="in"}`,
		`conduit_processor_records_total{component_id="p:dst:twice",pipeline_name="p",processor="clone",result="out"}`,
		`conduit_processor_execution_duration_seconds_count{component_id="p:src:origin",pipeline_name="p",processor="field.set"}`,
	} {
		if n := scrape(t, a, series); n < 2 {
			t.Errorf("%s is %v", series, n)
		}
	}
	for plugin, want := range map[string]float64{"field.set": 2, "filter": 1, "clone": 1} {
		if n := scrape(t, a, `conduit_processors{type="`+plugin+`"}`); n != want {
			t.Errorf("there are %v processors %s, want %v", n, plugin, want)
		}
	}
	seen := map[string]int{}
	for _, m := range outputsIn(t, a.Path("p.jsonl")) {
		if m.Metadata["drop"] != "no" || m.Payload.After["n"] == nil {
			t.Fatalf("a record arrived as %+v", m)
		}
		seen[m.Metadata["clone.index"]]++
	}
	if len(seen) != 2 || seen["0"]-seen["1"] > 1 {
		t.Errorf("copies arrived: %v", seen)
	}
	// A version whose processor does not exist, or refuses its settings, does not run.
	for wrong, want := range map[string]string{
		strings.Replace(text("two"), "plugin: clone", "plugin: clon", 1):   "did you mean \"clone\"",
		strings.Replace(text("two"), "{count: 1}", "{count: none}", 1):     "count",
		strings.Replace(text("two"), "eq .Metadata", "equal .Metadata", 1): "condition",
	} {
		a.Save("p.yaml", wrong)
		a.Wait("the failure of "+want, func() bool {
			text := a.State("p").LastAttempt.Error
			files, _ := a.Store.FileStates(t.Context())
			for _, f := range files {
				for _, p := range f.Problems {
					text += p.Message
				}
			}
			return strings.Contains(text, want)
		})
	}
}

// keeping is a pipeline of which every list has a processor that keeps state or holds records.
const keeping = `version: "2.2"
pipelines:
  - id: p
    status: running
    processors:
      - {id: pace, plugin: throttle, settings: {rate: %[2]d, interval: 100ms}}
      - {id: mark, plugin: field.set, settings: {field: .Metadata.mark, value: "%[2]d"}}
    connectors:
      - id: src
        type: source
        plugin: builtin:generator
        settings: {rate: 1000, format.type: structured, format.options.n: int, sdk.schema.extract.payload.enabled: false}
        processors:
          - {id: once, plugin: dedupe, settings: {key: .Position, window.count: %[2]d}}
      - id: dst
        type: destination
        plugin: builtin:file
        settings: {path: %[1]s/p.jsonl}
        processors:
          - id: windows
            plugin: aggregate
            settings: {window.size: 1s, window.records: %[2]d, fields.first: first(.Metadata.mark), fields.last: last(.Metadata.mark), fields.n: count}
`

// Processors that keep state, hold records or have a window open are exchanged while the pipeline
// runs, and go on with what they hold.
func TestProcessorsWithStateAreExchanged(t *testing.T) {
	t.Parallel()
	dir := agenttest.NewDir(t)
	a := agenttest.Start(t, dir)
	save := func(n int) { a.Save("p.yaml", fmt.Sprintf(keeping, dir, n)) }
	save(20)
	a.WaitPhase("p", spec.PhaseRunning, 1)
	const last = 40
	for n := 21; n <= last; n++ {
		save(n)
		a.WaitPhase("p", spec.PhaseRunning, int64(n-19))
	}
	both := func(m output) bool { return m.Payload.After["first"] != m.Payload.After["last"] }
	a.Wait("a window in which processors were exchanged", func() bool { return slices.ContainsFunc(outputsIn(t, a.Path("p.jsonl")), both) })
	if s := a.State("p"); s.Failures > 0 {
		t.Errorf("it failed: %s", s.Error)
	}
	started, amended := strings.Count(a.Log(), "pipeline runs"), strings.Count(a.Log(), "pipeline changed while it runs")
	if started != 1 || amended != last-20 {
		t.Errorf("it was started %d times and changed %d times while it ran, want 1 and %d", started, amended, last-20)
	}
}

const processed = `version: "2.2"
pipelines:
  - id: cloned
    dead-letter-queue: {window-size: 0}
    connectors:
      - id: src
        type: source
        plugin: builtin:file
        settings: {path: %[1]s/input.log}
        processors:
          - {id: decode, plugin: json.decode, settings: {field: .Payload.After}}
      - id: dst
        type: destination
        plugin: builtin:file
        settings: {path: %[1]s/cloned.jsonl}
    processors:
      - {id: drop, plugin: filter, condition: '{{ eq .Payload.After.drop true }}'}
      - {id: clone, plugin: clone, settings: {count: 2}}
  - id: deduped
    connectors:
      - {id: src, type: source, plugin: "builtin:file", settings: {path: %[1]s/input.log}}
      - id: dst
        type: destination
        plugin: builtin:file
        settings: {path: %[1]s/deduped.jsonl}
        processors:
          - {id: dedupe, plugin: dedupe, settings: {key: .Payload.After.n, window.count: %[2]d}}
    processors:
      - {id: decode, plugin: json.decode, settings: {field: .Payload.After}}
`

const gather = `      - id: gather
        plugin: aggregate
        settings: {window.size: 10ms, window.records: %d, fields.n: count, fields.first: min(.Payload.After.n), fields.last: max(.Payload.After.n), fields.read: 'min(.Metadata["opencdc.readAt"])'}
`

// decodedToFile describes a pipeline from input.log to a file that has its name. It decodes
// lines, and has more processors.
func decodedToFile(dir, id, more string) string {
	return fmt.Sprintf(`  - id: %[2]s
    connectors:
      - {id: src, type: source, plugin: builtin:file, settings: {path: %[1]s/input.log}}
      - {id: dst, type: destination, plugin: builtin:file, settings: {path: %[1]s/%[2]s.jsonl}}
    processors:
      - {id: decode, plugin: json.decode, settings: {field: .Payload.After}}
%[3]s`, dir, id, more)
}

const splitItems = `      - {id: split, plugin: split, settings: {field: .Payload.After.items}}
`

// processedAs describes the pipelines that are killed. Another n changes the settings of
// processors that keep state or hold records.
func processedAs(dir string, n int) string {
	return fmt.Sprintf(processed, dir, 100_000+n) + decodedToFile(dir, "gathered", fmt.Sprintf(gather, 4000-n)) +
		decodedToFile(dir, "split", splitItems) + decodedToFile(dir, "plain", "")
}

var processedPipelines = []string{"cloned", "deduped", "gathered", "split", "plain"}

// A kill -9 at any moment, also while processors are exchanged, loses nothing of what
// processors split, filter, hold or remember, reorders nothing, and repeats no more than
// without them: what was read since the last commit.
func TestKillLosesNothingWithProcessors(t *testing.T) {
	effort.Long(t)
	t.Parallel()
	dir := t.TempDir()
	writePipelines(t, dir, processedAs(dir, 0))
	feed, fed := context.WithCancel(t.Context())
	lines := make(chan int)
	go func() { lines <- feedObjects(feed, filepath.Join(dir, "input.log")) }()
	var outputs []string
	for _, id := range processedPipelines {
		outputs = append(outputs, filepath.Join(dir, id+".jsonl"))
	}
	killed := make([]time.Time, max(3, kills(t)/4))
	for i := range killed {
		p := startProcess(t, dir)
		p.grows(t, outputs...)
		writePipelines(t, dir, processedAs(dir, i+1))
		if i == 0 {
			p.waitFor(t, "an exchange of processors", func() bool { return strings.Contains(p.log.String(), "pipeline changed while it runs") })
		}
		p.awaitBytes(t, outputs[rand.IntN(len(outputs))], rand.Int64N(40_000)) // any moment
		p.kill()
		killed[i] = time.Now()
	}
	p := startProcess(t, dir)
	fed()
	want := <-lines
	p.waitFor(t, fmt.Sprintf("the last of %d lines", want), func() bool {
		for _, path := range outputs {
			if last := lastOutput(t, path); max(number(last, "n"), number(last, "last")) < want {
				return false
			}
		}
		return true
	})
	p.terminate(t)
	checkProcessed(t, dir, want, killed)
}

// waitFor waits until done returns true. The test fails with the log of the agent, which it ends,
// when that takes too long.
func (p *process) waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	wait.For(t, what, done, func() string {
		p.kill()
		return p.log.String()
	})
}

func checkProcessed(t *testing.T, dir string, want int, killed []time.Time) {
	t.Helper()
	for id, check := range map[string]func(t *testing.T, all []output, want int, seen *sightings){
		"cloned":   checkPieces(3, func(n int) bool { return n%5 == 3 }),
		"split":    checkPieces(2, func(int) bool { return false }),
		"gathered": checkGathered,
		"deduped":  checkInOrder,
		"plain":    checkInOrder,
	} {
		t.Run(id, func(t *testing.T) {
			seen := &sightings{killed: killed, readAt: map[int]time.Time{}}
			check(t, outputsIn(t, filepath.Join(dir, id+".jsonl")), want, seen)
			t.Logf("of %d records %d came again, read at most %v before the kill", want, seen.repeated, seen.oldest)
			if seen.oldest > wait.Within(repeatBound, busyBound) {
				t.Errorf("a record came again that was read %v before the kill, want at most %v", seen.oldest, repeatBound)
			}
		})
	}
}

// sightings are the records of a source that arrived.
type sightings struct {
	killed   []time.Time
	readAt   map[int]time.Time // by number
	repeated int
	oldest   time.Duration // longest time from reading a record that came again to the kill that followed
}

// add notes a record that was read at so many nanoseconds.
func (s *sightings) add(v int, readAt string) {
	before, again := s.readAt[v]
	ns, _ := strconv.ParseInt(readAt, 10, 64)
	s.readAt[v] = time.Unix(0, ns)
	if !again {
		return
	}
	s.repeated++
	if i := slices.IndexFunc(s.killed, before.Before); i >= 0 {
		s.oldest = max(s.oldest, s.killed[i].Sub(before))
	}
}

// feedRate is how many lines feedObjects appends in a second.
const feedRate = 2000

// feedObjects appends numbered objects until ctx ends and returns the number of the last
// one, which is not dropped.
func feedObjects(ctx context.Context, path string) int {
	return feed(ctx, path, feedRate/100, func(n int) string {
		return fmt.Sprintf("{\"n\":%d,\"drop\":%t,\"items\":[{\"i\":0},{\"i\":1}]}", n, n%5 == 3)
	})
}

func number(m output, field string) int {
	n, _ := m.Payload.After[field].(float64)
	return int(n)
}

// checkPieces expects so many pieces of each record that is not dropped.
func checkPieces(each int, dropped func(n int) bool) func(t *testing.T, all []output, want int, seen *sightings) {
	return func(t *testing.T, all []output, want int, seen *sightings) {
		pieces, back, last := map[int]map[string]bool{}, 0, 0
		for _, m := range all {
			v, index := number(m, "n"), m.Metadata["clone.index"]+m.Metadata["split.index"]
			if v < last {
				back++
			}
			last = v
			if pieces[v] == nil {
				pieces[v] = map[string]bool{}
			}
			if pieces[v][index] = true; index == "0" {
				seen.add(v, m.Metadata["opencdc.readAt"])
			}
		}
		if back > len(seen.killed) {
			t.Errorf("the order goes back %d times with %d kills", back, len(seen.killed))
		}
		for v := 1; v <= want; v++ {
			if len(pieces[v]) != each && !dropped(v) || dropped(v) && pieces[v] != nil {
				t.Fatalf("of record %d there are the pieces %v", v, pieces[v])
			}
		}
	}
}

func checkGathered(t *testing.T, all []output, want int, seen *sightings) {
	up := 0
	for _, m := range all {
		first, last, n := number(m, "first"), number(m, "last"), number(m, "n")
		if n != last-first+1 || first > up+1 {
			t.Fatalf("%d records from %d to %d after those up to %d", n, first, last, up)
		}
		read, _ := m.Payload.After["read"].(string)
		for v := first; v <= last; v++ {
			seen.add(v, read)
		}
		up = max(up, last)
	}
	if up != want {
		t.Errorf("gathered up to %d of %d", up, want)
	}
}

func checkInOrder(t *testing.T, all []output, want int, seen *sightings) {
	up := 0
	for _, m := range all {
		v := number(m, "n")
		if v > up+1 {
			t.Fatalf("%d follows %d", v, up)
		}
		seen.add(v, m.Metadata["opencdc.readAt"])
		up = max(up, v)
	}
	if up != want {
		t.Errorf("up to %d of %d", up, want)
	}
}
