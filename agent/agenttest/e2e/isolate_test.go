package e2e_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/isolate"
	"github.com/conduit-agent/conduit/api/client"
	"github.com/conduit-agent/conduit/spec"
)

// isolatedFiles is a pipeline from a file to two others. The second one has the declaration isolate.
func isolatedFiles(d *agenttest.Desk, isolate string) string {
	const lines = `{path: %q, sdk.record.format: template, sdk.record.format.options: '{{ printf "%%s" .Payload.After }}'}`
	return fmt.Sprintf(`version: "2.2"
pipelines:
  - id: p
    connectors:
      - {id: in, type: source, plugin: builtin:file, settings: {path: %q}}
      - {id: fast, type: destination, plugin: builtin:file, settings: %s}
      - {id: slow, type: destination, plugin: builtin:file, settings: %s%s}
`, d.Path("in.txt"), fmt.Sprintf(lines, d.Path("fast.txt")), fmt.Sprintf(lines, d.Path("slow.txt")), isolate)
}

// A destination whose system is away holds up nothing. Its records wait in its log, over restarts of the agent, and it
// gets them when the system is back. Without isolate, it gets the rest in the log first.
func TestAnIsolatedDestination(t *testing.T) {
	t.Parallel()
	d := deskIn(t, "")
	lines := func(from, to int) (text string) {
		for i := from; i <= to; i++ {
			text += fmt.Sprintln("line", i)
		}
		return text
	}
	got := func(name string) string {
		text, _ := os.ReadFile(d.Path(name))
		return string(text)
	}
	backlog := func() spec.Backlog {
		if running, _ := d.Runner.Pipeline("p"); running != nil {
			return d.Runner.Isolation.Backlogs(running)["p:slow"]
		}
		return spec.Backlog{}
	}
	agenttest.AppendTo(t, d.Path("in.txt"), lines(1, 100))
	d.Must(os.Mkdir(d.Path("slow.txt"), 0o700)) // a directory where the file must be
	d.Save("p.yaml", isolatedFiles(d.Desk, ", isolate: {}"))
	d.Wait("the sibling to get all lines", func() bool { return got("fast.txt") == lines(1, 100) })
	d.Wait("the backlog to say why", func() bool {
		b := backlog()
		return b.Records == 100 && strings.Contains(b.Error, "slow.txt") && b.State == spec.BacklogRetrying
	})
	labels := `{component_id="p:slow",pipeline_id="p",pipeline_name="p"}`
	if n, failing := agenttest.Scrape(t, d.Agent, "conduit_isolated_records"+labels), agenttest.Scrape(t, d.Agent,
		"conduit_isolated_failing"+labels); n != 100 || failing != 1 {
		t.Errorf("the metrics are %v records, failing %v", n, failing)
	}
	c := &client.Client{URL: "http://" + d.Address()}
	d.Wait("the rates to have the backlog", func() bool {
		s, err := c.Status(t.Context(), "p")
		return err == nil && s.Rates != nil && s.Rates.Stages["p:slow"].Backlog != nil &&
			s.Rates.Stages["p:slow"].Backlog.Records == 100
	})
	events, err := c.Events(t.Context(), -1, 100)
	d.Must(err)
	if !slices.ContainsFunc(events, func(e spec.Event) bool { return e.Reason == "IsolatedFailed" && e.Pipeline == "p" }) {
		t.Errorf("the events are %+v", events)
	}
	if s := d.State("p"); s.Phase != spec.PhaseRunning || s.Failures != 0 {
		t.Errorf("the pipeline is %+v", s)
	}
	d.Desk = d.Again(func() { agenttest.AppendTo(t, d.Path("in.txt"), lines(101, 150)) })
	d.Wait("the sibling to get all lines", func() bool { return got("fast.txt") == lines(1, 150) })
	d.Wait("the log to have all lines", func() bool { return backlog().Records == 150 })
	declared := d.Declared("p")
	var planned spec.PlannedPipeline
	d.Runner.Isolation.Plan(&planned, &declared.Pipeline, nil, "10m")
	notes := planned.Notes["slow"]
	if !slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, "records wait in its log") }) {
		t.Errorf("the notes on the removal are %q", notes)
	}
	d.Save("p.yaml", isolatedFiles(d.Desk, ""))
	d.Must(os.Remove(d.Path("slow.txt")))
	d.Wait("the destination to get all lines", func() bool { return got("slow.txt") == lines(1, 150) })
	agenttest.AppendTo(t, d.Path("in.txt"), lines(151, 200))
	d.Wait("both to get the next lines", func() bool {
		return got("slow.txt") == lines(1, 200) && got("fast.txt") == lines(1, 200)
	})
	d.Wait("the log to be gone", func() bool { return !isolate.LogsOf(d.Path("conduit.db")).Has("p", "slow") })
}
