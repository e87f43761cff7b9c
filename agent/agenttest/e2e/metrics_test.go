package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/spec"
)

func TestMetricsCountWhatPassed(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t, "")
	const more = "description: metrics"
	a.Save("p.yaml", agenttest.Generated(a.Dir, "p", 1000, more))
	a.Wait("records", func() bool { return agenttest.LinesIn(t, a.Path("p.jsonl")) > 100 })
	if v := agenttest.Scrape(t, a, `conduit_pipeline_status{pipeline_id="p",pipeline_name="p"}`); v != 1 {
		t.Errorf("status of a running pipeline is %v", v)
	}
	a.Save("p.yaml", agenttest.Generated(a.Dir, "p", 1000, "status: stopped"))
	a.WaitPhase("p", spec.PhaseStopped, 0)
	n := float64(agenttest.LinesIn(t, a.Path("p.jsonl")))
	labels := func(kind, plugin, id string) string {
		return fmt.Sprintf(`{component_id="p:%s",pipeline_id="p",pipeline_name="p",plugin="builtin:%s",type="%s"}`, id,
			plugin, kind)
	}
	src, dst := labels("source", "generator", "src"), labels("destination", "file", "dst")
	for series, want := range map[string]float64{
		"conduit_connector_records_total" + src:                                                n,
		"conduit_connector_records_total" + dst:                                                n,
		"conduit_connector_acked_records_total" + src:                                          n,
		"conduit_connector_nacked_records_total" + dst:                                         0,
		"conduit_connector_bytes_count" + src:                                                  n,
		`conduit_pipeline_execution_duration_seconds_count{pipeline_id="p",pipeline_name="p"}`: n,
		`conduit_pipeline_status{pipeline_id="p",pipeline_name="p"}`:                           2,
		`conduit_pipelines{status="stopped"}`:                                                  1,
		`conduit_source_ack_lag_seconds_count{pipeline_id="p",pipeline_name="p"}`:              n,
		`conduit_plugin_starts_total{plugin="builtin:generator"}`:                              1,
		`conduit_reconcile_attempts_total{result="ok"}`:                                        1,
		`conduit_reconcile_attempts_total{result="error"}`:                                     0,
		`conduit_api_panics_total`:                                                             0,
		`conduit_connectors{type="source"}`:                                                    1,
		`conduit_pipeline_phases_total{phase="running",pipeline_id="p",pipeline_name="p"}`:     1,
	} {
		if got := agenttest.Scrape(t, a, series); got != want {
			t.Errorf("%s is %v, want %v", series, got, want)
		}
	}
	if v := agenttest.Scrape(t, a, "conduit_committed_positions_total"); v < 1 || v > n {
		t.Errorf("%v positions committed for %v records", v, n)
	}
	syncs, commits := agenttest.Scrape(t, a, "conduit_fsync_duration_seconds_count"),
		agenttest.Scrape(t, a, "conduit_commit_duration_seconds_count")
	if took := agenttest.Scrape(t, a, "conduit_fsync_duration_seconds_sum"); syncs < commits || commits < 1 ||
		took <= 0 {
		t.Errorf("%v writes to the disk in %v s for %v commits", syncs, took, commits)
	}
}

// A connector that runs again counts as restarted; one that is only validated does not.
func TestMetricsCountRestarts(t *testing.T) {
	t.Parallel()
	d := deskIn(t, "")
	d.Save("p.yaml", d.Generated("p", 1))
	d.Runs("p", 1)
	for version := 2; version <= 3; version++ {
		d.Save("p.yaml", d.Generated("p", version))
		d.Runs("p", version)
	}
	d.Save("q.yaml", d.Generated("q", 1))
	d.Runs("q", 1)
	for series, want := range map[string]float64{
		`conduit_plugin_restarts_total{plugin="builtin:generator"}`: 2,
		`conduit_plugin_starts_total{plugin="builtin:generator"}`:   4,
	} {
		if got := agenttest.Scrape(t, d.Agent, series); got != want {
			t.Errorf("%s is %v, want %v", series, got, want)
		}
	}
}

// Series have the id of the pipeline and its name, which another pipeline may share. The name follows its changes
// without a restart.
func TestMetricsNameThePipeline(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t, "")
	for _, id := range []string{"p", "q"} {
		a.Save(id+".yaml", agenttest.Generated(a.Dir, id, 1000, "name: Orders"))
		a.WaitPhase(id, spec.PhaseRunning, 0)
	}
	a.Wait("both to be measured", func() bool {
		executions := agenttest.Scrape(t, a, `conduit_connector_execution_duration_seconds_count{component_id="p:src",`+
			`pipeline_id="p",pipeline_name="Orders",plugin="builtin:generator",type="source"}`)
		records := agenttest.Scrape(t, a, `conduit_connector_records_total{component_id="q:dst",`+
			`pipeline_id="q",pipeline_name="Orders",plugin="builtin:file",type="destination"}`)
		return executions > 0 && records > 0
	})
	before := agenttest.Scrape(t, a,
		`conduit_source_sequence{component_id="p:src",pipeline_id="p",pipeline_name="Orders",stage="acked"}`)
	a.Save("p.yaml", agenttest.Generated(a.Dir, "p", 1000, "name: Others"))
	a.Wait("the new name", func() bool { return strings.Contains(agenttest.MetricsOf(a), `pipeline_name="Others"`) })
	after := agenttest.Scrape(t, a,
		`conduit_source_sequence{component_id="p:src",pipeline_id="p",pipeline_name="Others",stage="acked"}`)
	if after < before {
		t.Errorf("%v records under the new name, %v before", after, before)
	}
	if strings.Contains(agenttest.MetricsOf(a), `pipeline_id="p",pipeline_name="Orders"`) {
		t.Error("the old name is still there")
	}
}

// A pipeline that is being deleted is not counted among the declared pipelines.
func TestMetricsCountWhatIsDeclared(t *testing.T) {
	t.Parallel()
	a := agenttest.Start(t, "", func(c *config.Config) { c.Pipelines.DeletionGrace = time.Hour })
	for _, id := range []string{"p", "q"} {
		a.Save(id+".yaml", agenttest.Generated(a.Dir, id, 1000, ""))
		a.WaitPhase(id, spec.PhaseRunning, 0)
	}
	counts := func(n float64) bool {
		return agenttest.Scrape(t, a, `conduit_pipelines{status="running"}`) == n &&
			agenttest.Scrape(t, a, `conduit_connectors{type="source"}`) == n
	}
	if !counts(2) {
		t.Errorf("%s", agenttest.MetricsOf(a))
	}
	if err := os.Remove(a.Path("pipelines/q.yaml")); err != nil {
		t.Fatal(err)
	}
	a.Wait("one pipeline to be counted", func() bool { return counts(1) })
	if a.State("q").Phase != spec.PhaseRunning {
		t.Error("it has stopped already")
	}
}

func TestPageListsAllMetrics(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../cmd/conduit/docs/METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	a := agenttest.Start(t, "")
	a.Save("p.yaml", agenttest.Generated(a.Dir, "p", 1000, ""))
	a.WaitPhase("p", spec.PhaseRunning, 0)
	w := httptest.NewRecorder()
	a.Metrics().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	names := regexp.MustCompile(`(?m)^# TYPE ((?:conduit|pipeline)_\w+) `).FindAllStringSubmatch(w.Body.String(), -1)
	if len(names) < 20 {
		t.Fatalf("only %d metrics:\n%s", len(names), w.Body)
	}
	for _, name := range names {
		if !strings.Contains(string(page), "`"+name[1]+"`") {
			t.Errorf("METRICS.md does not list %s", name[1])
		}
	}
}

// The status of a pipeline shows its rates while it runs.
func TestRatesAreInTheStatusOfAnAgent(t *testing.T) {
	t.Parallel()
	w := startAttentive(t)
	w.Save("p.yaml", agenttest.Generated(w.Dir, "p", 1000, ""))
	w.WaitPhase("p", spec.PhaseRunning, 0)
	var rates *spec.PipelineRates
	w.Wait("rates", func() bool {
		var status rest.PipelineStatus
		if err := json.Unmarshal([]byte(w.Do("GET", "/v1/pipelines/p/status", "").Body), &status); err != nil {
			t.Fatal(err)
		}
		rates = status.Rates
		return rates != nil && rates.Lag != nil && rates.Stages["p:dst"].Records > 0
	})
	if src := rates.Stages["p:src"]; rates.ID != "p" || rates.Records <= 0 || rates.Records > 10_000 ||
		src.Records != rates.Records || rates.Bytes <= 0 || len(rates.Series) == 0 {
		t.Errorf("rates %+v", rates)
	}
	w.Save("p.yaml", agenttest.Generated(w.Dir, "p", 1000, "status: stopped"))
	w.WaitPhase("p", spec.PhaseStopped, 0)
	if body := w.Do("GET", "/v1/pipelines/p/status", "").Body; strings.Contains(body, `"rates"`) {
		t.Errorf("it has rates although it is stopped: %s", body)
	}
}

// The counters of a pipeline are removed when it is deleted.
func TestCountsOfDeletedPipelinesAreForgotten(t *testing.T) {
	t.Parallel()
	w := startWeb(t, "", func(c *config.Config) { c.Pipelines.DeletionGrace, c.Pipelines.CleanupDelay = 0, 0 })
	w.Save("p.yaml", agenttest.Generated(w.Dir, "p", 1000, ""))
	w.WaitPhase("p", spec.PhaseRunning, 0)
	w.Save("q.yaml", agenttest.Generated(w.Dir, "q", 1000, ""))
	w.WaitPhase("q", spec.PhaseRunning, 0)
	if stats := w.Runner.Stats(); stats["p"] == nil || stats["q"] == nil {
		t.Fatalf("stats of %v", stats)
	}
	w.Save("p.yaml", "version: \"2.2\"\npipelines: []\n")
	w.Wait("the pipeline to be deleted", func() bool { return w.Runner.Stats()["p"] == nil })
	if w.Runner.Stats()["q"] == nil {
		t.Error("the other one is forgotten, too")
	}
}

// The status distinguishes a source that has delivered nothing from one that is idle.
func TestStatusShowsSourcesWithoutRecords(t *testing.T) {
	t.Parallel()
	w := startAttentive(t)
	begin := time.Now()
	in := w.Path("in.txt")
	if err := os.WriteFile(in, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	w.Save("p.yaml", fmt.Sprintf(`{version: "2.2", pipelines: [{id: p, connectors: [
		{id: src, type: source, plugin: builtin:file, settings: {path: %s}}, {id: dst, type: destination,
		  plugin: builtin:file, settings: {path: %s}}]}]}`, in, w.Path("p.jsonl")))
	w.WaitPhase("p", spec.PhaseRunning, 0)
	waiting := func() (text string, known bool) {
		var status rest.PipelineStatus
		w.Must("GET", "/v1/pipelines/p/status", "", &status)
		if status.Rates == nil {
			return "", false
		}
		if dst := status.Rates.Stages["p:dst"]; dst.Waiting != "" {
			t.Errorf("the destination has %q", dst.Waiting)
		}
		return status.Rates.Stages["p:src"].Waiting, true
	}
	var text string
	// A stage has rates after it was sampled twice, perhaps later than another stage.
	w.Wait("the state of the source", func() bool { text, _ = waiting(); return text != "" })
	since, found := strings.CutPrefix(text, "no record yet, open since ")
	if at, err := time.Parse(time.RFC3339, since); !found || err != nil || at.Before(begin.Add(-time.Second)) ||
		at.After(time.Now()) {
		t.Errorf("the status is %q", text)
	}
	if err := os.WriteFile(in, []byte("line\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	w.Wait("the record", func() bool { text, known := waiting(); return known && text == "" })
}
