package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/spec"
)

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

// A pipeline file with processors at all three places runs, its processors are changed while it runs, and the metrics
// include their counters.
func TestProcessorsOfAPipelineFile(t *testing.T) {
	t.Parallel()
	dir := agenttest.NewDir(t)
	a := agenttest.Start(t, dir)
	text := func(value string) string { return fmt.Sprintf(everywhere, dir, value) }
	last := func(mark string) bool {
		all := agenttest.OutputsIn(t, a.Path("p.jsonl"))
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
		`conduit_processor_execution_duration_seconds_count{component_id="p:src:origin",pipeline_name="p",` +
			`processor="field.set"}`,
	} {
		if n := agenttest.Scrape(t, a, series); n < 2 {
			t.Errorf("%s is %v", series, n)
		}
	}
	for plugin, want := range map[string]float64{"field.set": 2, "filter": 1, "clone": 1} {
		if n := agenttest.Scrape(t, a, `conduit_processors{type="`+plugin+`"}`); n != want {
			t.Errorf("there are %v processors %s, want %v", n, plugin, want)
		}
	}
	seen := map[string]int{}
	for _, m := range agenttest.OutputsIn(t, a.Path("p.jsonl")) {
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

// keeping is a pipeline in which every list has a processor that keeps state or holds records.
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
        settings: {rate: 1000, format.type: structured, format.options.n: int,
          sdk.schema.extract.payload.enabled: false}
        processors:
          - {id: once, plugin: dedupe, settings: {key: .Position, window.count: %[2]d}}
      - id: dst
        type: destination
        plugin: builtin:file
        settings: {path: %[1]s/p.jsonl}
        processors:
          - id: windows
            plugin: aggregate
            settings: {window.size: 1s, window.records: %[2]d, fields.first: first(.Metadata.mark),
              fields.last: last(.Metadata.mark), fields.n: count}
`

// Processors that keep state, hold records or have an open window are exchanged while the pipeline runs, and the new
// instances continue with that state.
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
	both := func(m agenttest.Output) bool { return m.Payload.After["first"] != m.Payload.After["last"] }
	a.Wait("a window in which processors were exchanged", func() bool {
		return slices.ContainsFunc(agenttest.OutputsIn(t, a.Path("p.jsonl")), both)
	})
	if s := a.State("p"); s.Failures > 0 {
		t.Errorf("it failed: %s", s.Error)
	}
	started, amended := strings.Count(a.Log(), "pipeline runs"),
		strings.Count(a.Log(), "pipeline was changed without a restart")
	if started != 1 || amended != last-20 {
		t.Errorf("it was started %d times and changed %d times while it ran, want 1 and %d", started, amended, last-20)
	}
}
