package ui_test

import (
	"database/sql"
	"fmt"
	"regexp"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/progress"
	"github.com/conduit-agent/conduit/spec"
)

// The lag of a source behind its system, and its progress with a snapshot, are in the status, the metrics and the page.
func TestUIProgressOfSources(t *testing.T) {
	load.Parallel(t, load.Agent+load.Browser)
	// The destination never writes everything, so a graceful stop would wait for this timeout.
	w := agenttest.StartWeb(t, "", func(c *config.Config) { c.Shutdown.Timeout = 100 * time.Millisecond })
	db, err := sql.Open("sqlite3", "file:"+w.Path("shop.db")+"?_busy_timeout=10000")
	if err == nil {
		_, err = db.ExecContext(t.Context(), "CREATE TABLE orders (id INTEGER PRIMARY KEY); WITH RECURSIVE n (i) AS "+
			"(VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 20000) INSERT INTO orders SELECT i FROM n")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	w.Save("p.yaml", fmt.Sprintf(`{version: "2.2", pipelines: [{id: p, connectors: [
		{id: src, type: source, plugin: builtin:sqlite, settings: {path: %s}},
		{id: dst, type: destination, plugin: builtin:file, settings: {path: %s, sdk.rate.perSecond: "1"}}]}]}`,
		w.Path("shop.db"), w.Path("out.jsonl")))
	w.WaitPhase("p", spec.PhaseRunning, 1)
	var behind *progress.Report
	reported := func(enough func() bool) func() bool {
		return func() bool {
			var status rest.PipelineStatus
			w.Must("GET", "/v1/pipelines/p/status", "", &status)
			if status.Rates != nil {
				behind = status.Rates.Stages["p:src"].Behind
			}
			return behind != nil && enough()
		}
	}
	w.Wait("the snapshot", reported(func() bool { return len(behind.Snapshots) == 1 && behind.Snapshots[0].Rows > 0 }))
	if s := behind.Snapshots[0]; s.Of != "orders" || s.Total != 20000 || s.Rows >= s.Total {
		t.Errorf("the snapshot is %+v", s)
	}
	if _, err := db.ExecContext(t.Context(), "INSERT INTO orders VALUES (30000), (30001)"); err != nil {
		t.Fatal(err)
	}
	w.Wait("the changes", reported(func() bool { return behind.Records != nil && *behind.Records == 2 }))

	const labels = `component_id="p:src",pipeline_id="p",pipeline_name="p"`
	if n := agenttest.Scrape(t, w.Agent, "conduit_source_behind_records{"+labels+"}"); n != 2 {
		t.Errorf("the metrics have %v records behind", n)
	}
	selector := `{component_id="p:src",of="orders",pipeline_id="p",pipeline_name="p"}`
	rows := agenttest.Scrape(t, w.Agent, "conduit_source_snapshot_rows"+selector)
	total := agenttest.Scrape(t, w.Agent, "conduit_source_snapshot_total_rows"+selector)
	if rows <= 0 || rows >= total || total != 20000 {
		t.Errorf("the metrics have %v of %v rows", rows, total)
	}
	if text := behind.String(); !regexp.MustCompile(
		`^orders \d+ % \(\d+ of 20000 rows, .+ left\), 2 records behind$`).MatchString(text) {
		t.Errorf("in a terminal it is %q", text)
	}

	p := openPage(t, w.API.URL, "pipelines/p")
	p.until("the source cannot be chosen", `!!document.querySelector(".node.source")`)
	p.eval(`document.querySelector(".node.source").dispatchEvent(new MouseEvent("click", {bubbles: true}))`)
	p.until("the card of the source does not show it",
		`/orders: \d+ % \(.+ of .+ rows, .+ left\), 2 records/.test(document.querySelector("dl.facts")?.innerText)`)
}
