package ui_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/spec"
)

// The list of pipelines shows how many records were refused, and a source without records is not busy.
func TestUIRefusalsAndIdleSources(t *testing.T) {
	load.Parallel(t, load.Agent+load.Browser)
	w := agenttest.StartWeb(t, "")
	agenttest.AppendTo(t, w.Path("in.log"), "bad 1\nbad 2\ngood\n")
	w.Save("p.yaml", agenttest.Picky(w.Dir, agenttest.IsBad, agenttest.Tolerant))
	w.WaitPhase("p", spec.PhaseRunning, 1)
	w.Wait("dead letters", func() bool { return len(w.DeadLetters()) == 2 })
	p := openPage(t, w.API.URL, "")
	p.until("the refusals are not in the list",
		`document.querySelector('tbody td[data-label="Refused"]').innerText === "2"`)
	p.press("Refused")
	p.until("the list is not in the order of refusals",
		`document.querySelector('th[aria-sort="ascending"]').innerText.startsWith("Refused")`)
	p.press("2")
	p.shows("2 dead letters")

	p.eval(`location.hash = "#/pipelines/p"`)
	p.until("the source cannot be chosen", `!!document.querySelector(".node.source")`)
	p.eval(`document.querySelector(".node.source").dispatchEvent(new MouseEvent("click", {bubbles: true}))`)
	p.shows("waits for records")
	text, err := chromedp.Run(p.ctx, chromedp.Evaluate[string]("document.body.innerText"))
	if err != nil || strings.Contains(text, "% of the time") {
		t.Errorf("an idle source is shown as busy, error %v: %s", err, text)
	}
}
