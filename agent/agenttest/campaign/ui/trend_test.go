package ui_test

import (
	"net"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/spec"
)

// The charts of a pipeline are there after a reload of the page and after a restart of the agent.
func TestUITrend(t *testing.T) {
	load.Parallel(t, load.Agent+load.Browser)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close() // the agent uses this port, twice
	at := func(c *config.Config) { c.API.HTTP.Address = address }
	w := agenttest.StartWeb(t, "", at)
	w.Save("p.yaml", agenttest.Generated(w.Dir, "p", 50, ""))
	w.WaitPhase("p", spec.PhaseRunning, 1)
	p := openPage(t, w.API.URL, "pipelines/p")
	p.restarts = true
	p.shows("Sources and destinations")
	const drawn = `[...document.querySelectorAll(".trends .line0, .trends .line1")].some((e) => ` +
		`e.getAttribute("d").includes("L"))`
	p.until("nothing is drawn", drawn)
	p.shows("to dst")
	p.press("The same as a table")
	p.until("the table has no values", `document.querySelectorAll(".values-box tbody tr").length > 1`)
	p.fits("charts")
	p.press("24 hours")
	p.until("it is not the last day", `[...document.querySelectorAll(".trends button")].find((e) => `+
		`e.innerText === "24 hours").ariaPressed === "true" && !!document.querySelector(".trends .line0")`)

	measured := func(w *agenttest.Web) (n int) {
		var trend spec.Trend
		w.Must("GET", "/v1/pipelines/p/trend", "", &trend)
		for _, v := range trend.Records {
			if v != nil && *v > 0 {
				n++
			}
		}
		return n
	}
	before := measured(w)
	w.Save("p.yaml", agenttest.Generated(w.Dir, "p", 50, "status: stopped"))
	w.WaitPhase("p", spec.PhaseStopped, 0)
	w.Stop()
	again := agenttest.StartWeb(t, w.Dir, at)
	if after := measured(again); after < before {
		t.Errorf("%d values before the restart, %d after it", before, after)
	}
	p.do(chromedp.Reload())
	p.until("nothing is drawn after the restart", drawn)
}
