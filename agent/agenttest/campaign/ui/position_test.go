package ui_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/spec"
)

// While its pipeline is stopped, the card of a source can move the position from which it resumes, after the page has
// named the records that are repeated or skipped.
func TestUIMovesPositions(t *testing.T) {
	load.Parallel(t, load.Agent+load.Browser)
	w := agenttest.StartWeb(t, "")
	agenttest.AppendTo(t, w.Path("in.txt"), "a\nb\nc\n")
	w.Save("p.yaml", fmt.Sprintf(`version: "2.2"
pipelines:
  - id: p
    connectors:
      - {id: in, type: source, plugin: file, settings: {path: %s}}
      - {id: out, type: destination, plugin: file, settings: {path: %s, sdk.record.format: template,
         sdk.record.format.options: '{{ printf "%%s" .Payload.After }}'}}
`, w.Path("in.txt"), w.Path("out.txt")))
	written := func(lines ...string) {
		t.Helper()
		w.Wait("lines "+strings.Join(lines, " "), func() bool {
			text, err := os.ReadFile(w.Path("out.txt"))
			return err == nil && slices.Equal(strings.Fields(string(text)), lines)
		})
	}
	written("a", "b", "c")

	p := openPage(t, w.API.URL, "pipelines/p")
	p.until("the source cannot be chosen", `!!document.querySelector(".node.source")`)
	p.eval(`document.querySelector(".node.source").dispatchEvent(new MouseEvent("click", {bubbles: true}))`)
	p.shows("To change the position, stop the pipeline.")
	p.press("Stop")
	w.WaitPhase("p", spec.PhaseStopped, 0)
	p.until("the position is not shown",
		`document.querySelector("form[aria-label=Position] code").innerText.startsWith("6;3;")`)
	p.fits("position")

	p.enter("#position", "4")
	p.press("Resume from this position…")
	p.shows("From 4 it delivers the records in between again (4 instead of 6).")
	p.press("Cancel")
	p.until("the position moved without being confirmed",
		`document.querySelector("form[aria-label=Position] code").innerText.startsWith("6;3;")`)
	p.press("Resume from this position…")
	p.press("Move it")
	p.until("the position did not move", `document.querySelector("form[aria-label=Position] code").innerText === "4"`)
	p.press("Start")
	written("a", "b", "c", "c")

	p.press("Stop")
	p.press("Start from the beginning…")
	p.shows("it delivers all records again")
	p.press("Forget the position")
	p.shows("the beginning: there is no position")
	p.press("Start")
	written("a", "b", "c", "c", "a", "b", "c")
}
