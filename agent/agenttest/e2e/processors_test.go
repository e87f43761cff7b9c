package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
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
      - id: src
        type: source
        plugin: builtin:file
        settings: {path: %[1]s/input.log}
      - id: dst
        type: destination
        plugin: builtin:file
        settings: {path: %[1]s/deduped.jsonl}
        processors:
          - {id: dedupe, plugin: dedupe, settings: {key: .Payload.After.n}}
    processors:
      - {id: decode, plugin: json.decode, settings: {field: .Payload.After}}
`

const gather = `      - id: gather
        plugin: aggregate
        settings: {window.size: 10ms, fields.n: count, fields.first: min(.Payload.After.n), fields.last: max(.Payload.After.n)}
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

// A kill -9 at any moment loses nothing of what processors split, filter, hold or remember,
// and reorders nothing.
func TestKillLosesNothingWithProcessors(t *testing.T) {
	dir := t.TempDir()
	writePipelines(t, dir, fmt.Sprintf(processed, dir)+decodedToFile(dir, "gathered", gather))
	feed, fed := context.WithCancel(t.Context())
	lines := make(chan int)
	go func() { lines <- feedObjects(feed, filepath.Join(dir, "input.log")) }()
	out := func(name string) string { return filepath.Join(dir, name+".jsonl") }
	n := kills(t) / 4
	for i := range n {
		p := startProcess(t, dir)
		if err := grows(out("cloned"), out("gathered"), out("deduped")); err != nil {
			p.kill()
			t.Fatalf("start %d: %v\n%s", i, err, p.log.String())
		}
		time.Sleep(time.Duration(rand.Int64N(int64(60 * time.Millisecond)))) // any moment
		p.kill()
	}
	fed()
	want := <-lines
	p := startProcess(t, dir)
	arrived := func() bool {
		for _, name := range []string{"cloned", "gathered", "deduped"} {
			all := outputsIn(t, out(name))
			if len(all) == 0 || max(number(all[len(all)-1], "n"), number(all[len(all)-1], "last")) < want {
				return false
			}
		}
		return true
	}
	for deadline := time.Now().Add(30 * time.Second); !arrived(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.kill()
			t.Fatalf("the last of %d lines did not arrive\n%s", want, p.log.String())
		}
	}
	p.terminate(t)
	checkCloned(t, outputsIn(t, out("cloned")), want, n)
	checkGathered(t, outputsIn(t, out("gathered")), want, n)
	checkDeduped(t, outputsIn(t, out("deduped")), want, n)
}

// feedObjects appends numbered objects until ctx ends and returns the number of the last
// one, which is not dropped.
func feedObjects(ctx context.Context, path string) int {
	return feed(ctx, path, 20, func(n int) string { return fmt.Sprintf("{\"n\":%d,\"drop\":%t}", n, n%5 == 3) })
}

func number(m output, field string) int {
	n, _ := m.Payload.After[field].(float64)
	return int(n)
}

func checkCloned(t *testing.T, all []output, want, kills int) {
	t.Helper()
	pieces, back, last := map[int]map[string]bool{}, 0, 0
	for _, m := range all {
		v := number(m, "n")
		if v < last {
			back++
		}
		last = v
		if pieces[v] == nil {
			pieces[v] = map[string]bool{}
		}
		pieces[v][m.Metadata["clone.index"]] = true
	}
	if back > kills {
		t.Errorf("cloned: the order goes back %d times with %d kills", back, kills)
	}
	for v := 1; v <= want; v++ {
		if dropped := v%5 == 3; len(pieces[v]) != 3 && !dropped || dropped && pieces[v] != nil {
			t.Fatalf("cloned: of record %d there are the pieces %v", v, pieces[v])
		}
	}
}

func checkGathered(t *testing.T, all []output, want, kills int) {
	t.Helper()
	up, back := 0, 0
	for _, m := range all {
		first, last, n := number(m, "first"), number(m, "last"), number(m, "n")
		if n != last-first+1 || first > up+1 {
			t.Fatalf("gathered: %d records from %d to %d after those up to %d", n, first, last, up)
		}
		if first <= up {
			back++
		}
		up = max(up, last)
	}
	if up != want || back == 0 && len(all) == 0 {
		t.Errorf("gathered up to %d of %d", up, want)
	}
	t.Logf("%d windows, %d repeated", len(all), back)
}

func checkDeduped(t *testing.T, all []output, want, kills int) {
	t.Helper()
	up, repeated := 0, 0
	for _, m := range all {
		switch v := number(m, "n"); {
		case v > up+1:
			t.Fatalf("deduped: %d follows %d", v, up)
		case v <= up:
			repeated++
		default:
			up = v
		}
	}
	if up != want {
		t.Errorf("deduped up to %d of %d", up, want)
	}
	t.Logf("%s of %d records came again", strconv.Itoa(repeated), want)
}
