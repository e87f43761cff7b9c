package ui_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/spec"
)

// changes are places of the page, their text for a reader, and their buttons that change something, which only an
// administrator sees.
var changes = []struct {
	at, shows string
	buttons   []string
}{
	{"", "2 of 2 running", []string{"New pipeline"}},
	{"new", "This token may only read", []string{"Plan and create…"}},
	{"files/p.yaml", "This token may only read", []string{"What would this change?"}},
	{"pipelines/p", "Conditions", []string{"Stop", "Restart"}},
	{"pipelines/p/dry-run", "This token may only read", []string{"Run the processors"}},
	{"pipelines/p/dead-letters", "1 dead letter", []string{"Replay all", "Drop all", "Select"}},
	{"pipelines/api", "Conditions", []string{"Stop", "Restart", "Delete"}},
	{"pipelines/api/declaration", "Copy YAML", []string{"Plan and apply…"}},
	{"pipelines/api/history", "revision 1", []string{"Roll back to this"}},
}

// A reader sees every view and none of the administrator's buttons; an administrator sees them all.
func TestUIReader(t *testing.T) {
	load.Parallel(t, load.Agent+load.Browser)
	w := agenttest.StartWeb(t, "", tokens(t, "read-secret", "admin-secret"))
	w.API.Token = "admin-secret"
	agenttest.AppendTo(t, w.Path("in.log"), "bad 1\n")
	w.Save("p.yaml", agenttest.Picky(w.Dir, agenttest.IsBad, agenttest.Tolerant))
	w.Apply(w.Document("api", "api.jsonl", 10))
	w.Apply(w.Document("api", "api.jsonl", 11))
	w.WaitPhase("api", spec.PhaseRunning, 2)
	w.WaitPhase("p", spec.PhaseRunning, 1)
	w.Wait("a dead letter", func() bool { return len(w.DeadLetters()) == 1 })

	p := openPage(t, w.API.URL, "")
	login := func(token string) { p.enter("#token", token); p.press("Log in") }
	named := func(name string) string {
		return `[...document.querySelectorAll("main button, main a.button, main thead th")].some((e) => ` +
			`e.innerText.trim() === ` + quoted(name) + `)`
	}
	login("read-secret")
	p.shows("read only")
	for _, c := range changes {
		p.eval("location.hash = " + quoted("#/"+c.at))
		p.shows(c.shows)
		for _, name := range c.buttons {
			if shown, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool](named(name))); err != nil || shown {
				t.Errorf("%s: a reader sees %q: %v, error %v", c.at, name, shown, err)
			}
		}
	}
	p.eval(`location.hash = "#/pipelines/p/dead-letters"`)
	p.press("1")
	p.shows("Dead letter 1")
	for _, name := range []string{"Replay", "Edit", "Drop"} {
		if shown, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool](named(name))); err != nil || shown {
			t.Errorf("of a dead letter a reader sees %q: %v, error %v", name, shown, err)
		}
	}
	p.press("Log out")
	for len(p.errors) > 0 { // only requests without a token are refused
		if message := <-p.errors; !strings.Contains(message, "401") {
			t.Errorf("the page complains: %s", message)
		}
	}

	login("admin-secret")
	for _, c := range changes {
		p.eval("location.hash = " + quoted("#/"+c.at))
		for _, name := range c.buttons {
			p.until("at "+c.at+" an administrator does not see "+name, named(name))
		}
	}
	p.eval(`location.hash = "#/pipelines/api/declaration"`)
	p.until("an administrator cannot write", `document.querySelector(".editor textarea")?.readOnly === false`)
	for len(p.errors) > 0 {
		if message := <-p.errors; !strings.Contains(message, "401") {
			t.Errorf("the page complains: %s", message)
		}
	}
}

// The records before and after the processors of a destination can be inspected, like those of every other stage.
func TestUIInspectsEveryStage(t *testing.T) {
	load.Parallel(t, load.Agent+load.Browser)
	w := agenttest.StartWeb(t, "")
	own := "        processors: [{id: mark, plugin: field.set, settings: {field: .Payload.After.mark, value: seen}}]\n"
	w.Save("p.yaml", agenttest.Generated(w.Dir, "p", 20,
		"processors: [{id: common, plugin: field.set, settings: {field: .Payload.After.common, value: was here}}]")+own)
	w.WaitPhase("p", spec.PhaseRunning, 1)
	p := openPage(t, w.API.URL, "pipelines/p/records")
	record := `document.querySelector("article.record")?.innerText`
	for _, stage := range []struct {
		label        string
		common, mark bool
	}{
		{"source src", false, false},
		{"before common", false, false}, {"after common", true, false},
		{"to dst", true, false},
		{"before dst:mark", true, false}, {"after dst:mark", true, true},
		{"destination dst", true, true},
	} {
		find := `[...document.querySelectorAll(".inspector select option")].find((o) => o.innerText === ` +
			quoted(stage.label) + `)`
		p.until("there is no stage "+stage.label, "!!"+find)
		p.eval(`(() => { const option = ` + find +
			`, list = option.parentElement; list.value = option.value; list.dispatchEvent(new Event("change", ` +
			`{bubbles: true})); })()`)
		p.until("at "+stage.label+" no record is shown as it passes",
			`document.querySelector(".inspector select").selectedOptions[0].innerText === `+quoted(stage.label)+
				` && !!`+record+` && `+record+`.includes("was here") === `+strconv.FormatBool(stage.common)+` && `+
				record+
				`.includes("seen") === `+strconv.FormatBool(stage.mark))
	}
}
