package ui_test

import (
	"slices"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/spec"
)

// Dead letters are found by a filter, shown with their record and errors, edited, replayed and dropped, and the page
// shows the outcome.
func TestUIDeadLetters(t *testing.T) {
	load.Parallel(t, load.Agent+load.Browser)
	w := agenttest.StartWeb(t, "")
	agenttest.AppendTo(t, w.Path("in.log"), "bad 1\nbad 2\nbad 3\nbad worse 4\n")
	w.Save("p.yaml", agenttest.Picky(w.Dir, agenttest.IsBad, agenttest.Tolerant))
	w.WaitPhase("p", spec.PhaseRunning, 1)
	w.Wait("dead letters", func() bool { return len(w.DeadLetters()) == 4 })
	w.Save("p.yaml", agenttest.Picky(w.Dir, `{{ contains "worse" (printf "%s" .Payload.After) }}`, agenttest.Tolerant))
	w.WaitPhase("p", spec.PhaseRunning, 2)

	p := openPage(t, w.API.URL, "pipelines/p/dead-letters")
	p.shows("4 dead letters")
	p.enter("input[name=since]", "2001-01-01T00:00")
	p.enter("input[name=error]", "no such error")
	p.press("Find")
	p.shows("No such dead letters")
	p.enter("input[name=error]", "IS BAD")
	p.press("Find")
	p.until("four are not found", `document.querySelectorAll("table.log tbody tr").length === 4`)
	p.until("the list has no records",
		`document.querySelector("table.log tbody tr td:last-child").textContent === "bad worse 4"`)
	p.fits("dead-letters")

	p.editsADeadLetter()
	p.keepsDigits()

	mark := func(id string) { p.eval(`document.querySelector('input[aria-label="Select ` + id + `"]').click()`) }
	mark("1")
	mark("4")
	p.press("Replay 2 selected ones")
	p.shows("Replayed 2: 2 settled, 0 refused again.")
	p.until("two are not left", `document.querySelectorAll("table.log tbody tr").length === 2`)
	if got, want := agenttest.Payloads(t, w.Path("out.jsonl")), []string{"bad 1", "mended 4"}; !slices.Equal(got,
		want) {
		t.Errorf("written is %q, want %q", got, want)
	}
	w.Save("p.yaml", agenttest.Picky(w.Dir, agenttest.IsBad, agenttest.Tolerant))
	w.WaitPhase("p", spec.PhaseRunning, 3)
	p.enter("select[name=from]", "first")
	p.press("Replay those found")
	p.shows("cannot replay dead letter 2 from the first processor: it was edited")
	p.enter("select[name=from]", "")
	p.press("Replay those found")
	p.shows("Replayed 2: 0 settled, 2 refused again.")
	p.press("3")
	p.shows("replayed")
	p.press("Drop those found")
	p.press("Drop")
	p.shows("2 dead letters dropped")
	p.hides("bad 3")
	if l := w.DeadLetters(); len(l) != 0 {
		t.Errorf("left are %+v", l)
	}
}

// editsADeadLetter opens the fourth dead letter and corrects its record.
func (p *page) editsADeadLetter() {
	p.t.Helper()
	p.press("4")
	p.shows("bad worse 4")
	p.shows("pipeline-processor")
	p.fits("dead-letter")
	p.press("Edit")
	const before, after = "bad worse 4", "mended 4"
	p.until("there is no record to edit", `document.querySelector("#dead-letter-record").value.includes(`+
		quoted(before)+`)`)
	p.fits("dead-letter-edited")
	p.eval(`window.record = document.querySelector("#dead-letter-record").value.replace(` + quoted(before) + `, ` +
		quoted(after) + `)`)
	text, err := chromedp.Run(p.ctx, chromedp.Evaluate[string]("window.record"))
	if err != nil {
		p.t.Fatal(err)
	}
	p.enter("#dead-letter-record", text+"}")
	p.until("a record that is no JSON can be saved", `document.querySelector("form button.primary").disabled`)
	p.enter("#dead-letter-record", text)
	p.press("Save")
	p.shows("mended 4")
}

// keepsDigits gives the second dead letter a number that a double would change, and saves it twice.
func (p *page) keepsDigits() {
	p.t.Helper()
	const number = "12345678901234567890.12"
	p.press("2")
	p.shows("Dead letter 2")
	p.press("Edit")
	const record = `document.querySelector("#dead-letter-record").value`
	p.until("there is no record to edit", record+`.includes("bad 2")`)
	p.eval(`window.record = ` + record + `.replace('"bad 2"', '{"bad": "bad 2", "n": ` + number + `}')`)
	text, err := chromedp.Run(p.ctx, chromedp.Evaluate[string]("window.record"))
	if err != nil {
		p.t.Fatal(err)
	}
	p.enter("#dead-letter-record", text)
	p.press("Save")
	p.shows(number)
	p.press("Edit")
	p.until("the number has other digits", record+`.includes("`+number+`")`)
	p.press("Save")
	p.until("the record is still edited", `!document.querySelector("#dead-letter-record")`)
	p.shows(number)
}
