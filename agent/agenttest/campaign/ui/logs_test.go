package ui_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/spec"
)

// The log of a pipeline and of the agent is shown, filtered, searched and followed, and the page keeps few lines.
func TestUILogs(t *testing.T) {
	load.Parallel(t, load.Agent+load.Browser)
	w := agenttest.StartWeb(t, "")
	w.Save("p.yaml", agenttest.Generated(w.Dir, "p", 10, ""))
	w.Save("chatty.yaml", `{version: "2.2", pipelines: [{id: chatty, connectors: [
		{id: in, type: source, plugin: generator, settings: {format.type: raw, format.options.n: int, rate: "500"}},
		{id: out, type: destination, plugin: log, settings: {message: chatter}}]}]}`)
	w.WaitPhase("p", spec.PhaseRunning, 1)
	w.WaitPhase("chatty", spec.PhaseRunning, 1)
	p := openPage(t, w.API.URL, "pipelines/p")
	p.until("there is no tab", `[...document.querySelectorAll("nav.tabs a")].at(-1).innerText === "Log"`)
	p.do(chromedp.KeyEvent("7"))
	p.until("the tab of the pipeline is not open", `location.hash === "#/pipelines/p/logs"`)
	p.shows("pipeline runs")
	p.hides("agent started")
	p.enter("#level", "error")
	p.shows("No such lines")
	p.enter("#level", "info")
	p.enter("#search", "generation=1")
	p.until("not one line is found", `document.querySelectorAll("table.log tbody tr").length === 1`)
	p.enter("#search", "")
	w.Must("POST", "/v1/pipelines/p/stop", "", nil)
	p.shows("pipeline stopped")

	p.eval(`location.hash = "#/logs"`)
	p.shows("agent started")
	p.shows("the last 500 of")
	rows, err := chromedp.Run(p.ctx, chromedp.Evaluate[int](`document.querySelectorAll("table.log tbody tr").length`))
	if err != nil || rows > 500 {
		t.Errorf("%d lines are rendered, error %v", rows, err)
	}
	const atEnd = `(() => { const e = document.querySelector(".lines-box"); ` +
		`return e.scrollHeight - e.scrollTop - e.clientHeight < 24; })()`
	p.until("it does not follow", atEnd)
	p.eval(`document.querySelector(".lines-box").scrollTop = 0`)
	p.shows("Follow: off")
	p.press("Follow: off")
	p.shows("Follow: on")
	p.until("it does not follow again", atEnd)
	p.enter("#search", "agent started")
	p.until("not one line is found", `document.querySelectorAll("table.log tbody tr").length === 1`)
}
