package ui_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/browser"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/config"
	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/spec"
)

// page is the web UI of an agent, open in a browser.
type page struct {
	t        *testing.T
	ctx      context.Context
	url      string
	errors   chan string // script errors and violations of the content security policy
	restarts bool        // the agent restarts under the page: the browser reports failed connections
}

// openPage opens the UI at a place such as "pipelines/p".
func openPage(t *testing.T, url, at string) *page {
	t.Helper()
	return openPageIn(t, browser.Tab(t, 0), url, at)
}

// openPageIn is openPage in the given tab.
func openPageIn(t *testing.T, tab context.Context, url, at string) *page {
	t.Helper()
	p := &page{t: t, ctx: tab, url: url, errors: make(chan string, 100)}
	console := chromedp.Console(p.ctx)
	go func() {
		for m, err := range console {
			if err != nil {
				return
			}
			if m.IsException() || m.Type == chromedp.ConsoleError || m.Type == chromedp.ConsoleWarning {
				p.errors <- m.String() + " " + m.URL
			}
		}
	}()
	p.do(chromedp.Navigate(url + "/#/" + at))
	t.Cleanup(func() {
		for len(p.errors) > 0 {
			if message := <-p.errors; !p.restarts || !strings.Contains(message, "ERR_") {
				t.Errorf("the page complains: %s", message)
			}
		}
	})
	return p
}

func (p *page) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, actions...); err != nil {
		picture(p.t, p.ctx, "failure-"+p.t.Name())
		p.t.Fatal(err)
	}
}

// until waits until an expression of JavaScript is true.
func (p *page) until(what, expression string) {
	p.t.Helper()
	if _, err := chromedp.Run(p.ctx, chromedp.Poll[bool](whenThere(expression),
		chromedp.WithPollingTimeout(wait.Limit))); err != nil {
		picture(p.t, p.ctx, "failure-"+p.t.Name())
		text, _ := chromedp.Run(p.ctx, chromedp.Evaluate[string]("document.body.innerText"))
		p.t.Fatalf("%s: %v; the page shows:\n%s", what, err, text)
	}
}

// whenThere is false while the expression dereferences null because an element does not exist yet.
func whenThere(expression string) string {
	return "(() => { try { return !!(" + expression +
		") } catch (e) { if (e instanceof TypeError) return false; throw e } })()"
}

// shows waits until the page contains a text.
func (p *page) shows(text string) {
	p.t.Helper()
	p.until("the page does not show "+text, "document.body.innerText.includes("+quoted(text)+")")
}

// hides waits until the page no longer contains a text.
func (p *page) hides(text string) {
	p.t.Helper()
	p.until("the page still shows "+text, "!document.body.innerText.includes("+quoted(text)+")")
}

// press clicks the button or link with this name, once it can be clicked.
func (p *page) press(name string) {
	p.t.Helper()
	p.until("there is no button "+name, "!!"+button(name))
	p.eval(button(name) + ".click()")
}

// button is the expression for an enabled button or link.
func button(name string) string {
	return `[...(document.querySelector("dialog") || document).querySelectorAll("button, a, summary, ` +
		`[role=tab]")].find((e) => e.innerText.trim() === ` + quoted(name) + ` && !e.disabled)`
}

func (p *page) eval(expression string) {
	p.t.Helper()
	if _, err := chromedp.Run(p.ctx, chromedp.Evaluate[any](expression+"; null")); err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
}

// enter puts text into the field that the selector finds, as if it was typed.
func (p *page) enter(selector, text string) {
	p.t.Helper()
	p.until("there is no field "+selector, "!!document.querySelector("+quoted(selector)+")")
	p.eval(fmt.Sprintf(`(() => { const e = document.querySelector(%s); e.focus(); e.value = %s; e.dispatchEvent(new `+
		`Event("input", {bubbles: true})); e.dispatchEvent(new Event("change", {bubbles: true})); })()`,
		quoted(selector), quoted(text)))
}

func quoted(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// views are places of the page and their text when they are complete.
var views = []struct{ name, at, shows string }{
	{"fleet", "", "records/s"},
	{"pipeline", "pipelines/p", "Conditions"},
	{"records", "pipelines/p/records", "create"},
	{"declaration", "pipelines/p/declaration", "Copy YAML"},
	{"history", "pipelines/p/history", "revision 1"},
	{"dry-run", "pipelines/p/dry-run", "Take 5 records"},
	{"dead-letters", "pipelines/p/dead-letters", "Dead-letter queue"},
	{"new", "new", "Plan and create"},
	{"file", "files/bad.yaml", "What would this change?"},
	{"plugins", "plugins/builtin%3Agenerator%40v1.0.0", "As a source"},
	{"events", "events", "FileRejected"},
	{"pipeline-log", "pipelines/p/logs", "pipeline runs"},
	{"log", "logs", "agent started"},
	{"agent", "agent", "Settings in effect"},
}

// Every view renders without errors, fits a wide and a narrow window, in light and dark, and is accessible.
func TestUIViews(t *testing.T) {
	load.Parallel(t, load.Agent+load.Browser)
	w := agenttest.StartWeb(t, "")
	w.Save("p.yaml", agenttest.Generated(w.Dir, "p", 50, marked))
	w.Save("bad.yaml", strings.Replace(agenttest.Generated(w.Dir, "q", 50, ""), "type: source", "type: sauce", 1))
	w.WaitPhase("p", spec.PhaseRunning, 1)
	p := openPage(t, w.API.URL, "")
	for i, size := range append(sizes, extremes...) {
		for j, scheme := range schemes {
			if i%len(schemes) != j && !*everyScheme {
				continue
			}
			p.do(chromedp.EmulateViewport(size[0], size[1]), browser.Colours(scheme))
			for _, view := range views {
				p.eval("location.hash = " + quoted("#/"+view.at))
				p.shows(view.shows)
				p.isFit(fmt.Sprintf("%s %dx%d %s", view.name, size[0], size[1], scheme))
			}
		}
	}
}

// The windows and the color schemes in which views are tested.
var (
	sizes   = [][2]int64{{1440, 900}, {390, 844}}
	schemes = []string{"light", "dark"}
	// extremes are the narrowest and the widest window, in which all views are tested together.
	extremes = [][2]int64{{320, 640}, {2560, 1440}}
)

// fits checks that the current view fits a wide and a narrow window, in light and dark, and is accessible. It leaves
// the page wide and light.
func (p *page) fits(view string) {
	p.t.Helper()
	for _, size := range slices.Backward(sizes) {
		for _, scheme := range slices.Backward(schemes) {
			p.do(chromedp.EmulateViewport(size[0], size[1]), browser.Colours(scheme))
			p.isFit(fmt.Sprintf("%s %dx%d %s", view, size[0], size[1], scheme))
		}
	}
}

// isFit checks that the view is no wider than the window, and accessible.
func (p *page) isFit(view string) {
	p.t.Helper()
	picture(p.t, p.ctx, strings.ReplaceAll(view, " ", "-"))
	browser.Fits(p.ctx, p.t, view)
}

// marked are processors that mark records.
const marked = "processors: [{id: mark, plugin: field.set, settings: {field: .Payload.After.mark, value: seen}}]"

// A dry run takes records from the stream of the source, and shows the changes at each stage.
func TestUIDryRun(t *testing.T) {
	load.Parallel(t, load.Agent+load.Browser)
	w := agenttest.StartWeb(t, "")
	w.Save("p.yaml", agenttest.Generated(w.Dir, "p", 50, marked))
	w.WaitPhase("p", spec.PhaseRunning, 1)
	p := openPage(t, w.API.URL, "pipelines/p/dry-run")
	p.press("Take 5 records from src")
	p.until("five records are not taken", `document.querySelector("textarea.lines").value.split("\n").length === 5`)
	p.press("Run the processors")
	p.until("the change is not shown",
		`[...document.querySelectorAll(".steps .added")].filter((e) => e.innerText.includes("seen")).length === 5`)
	p.shows("dst would receive 5")
}

// A broken file appears with its line while its pipeline keeps running, and disappears.
func TestUIBrokenFileAppearsAndDisappears(t *testing.T) {
	load.Parallel(t, load.Agent+load.Browser)
	w := agenttest.StartWeb(t, "")
	w.Save("p.yaml", agenttest.Generated(w.Dir, "p", 10, ""))
	w.WaitPhase("p", spec.PhaseRunning, 1)
	p := openPage(t, w.API.URL, "")
	p.shows("1 of 1 running")
	w.Save("p.yaml", strings.Replace(agenttest.Generated(w.Dir, "p", 10, ""), "type: source", "type: sauce", 1))
	p.shows("p.yaml:7:15")
	p.shows("type: sauce")
	p.shows("keeps running: it runs version 1")
	w.Save("p.yaml", agenttest.Generated(w.Dir, "p", 20, ""))
	p.hides("Needs attention")
	p.shows("runs version 2")
}

// From an empty agent to a running pipeline and back, by clicking.
func TestUICreateInspectDelete(t *testing.T) {
	load.Parallel(t, load.Agent+load.Browser)
	w := agenttest.StartWeb(t, "")
	p := openPage(t, w.API.URL, "")
	p.press("make one here")
	p.enter("#id", "by-hand")
	p.enter("#c0plugin", "generator")
	p.until("there are no optional settings", `!!document.querySelector("details summary")`)
	p.eval(`document.querySelector("details summary").click()`)
	p.enter(`[id="c0rate"]`, "20")
	p.enter(`[id="c0format.type"]`, "structured")
	p.enter("#c1plugin", "log")
	p.press("Plan and create…")
	p.shows("What this changes")
	p.press("Apply")
	p.until("the pipeline is not opened", `location.hash === "#/pipelines/by-hand"`)
	w.WaitPhase("by-hand", spec.PhaseRunning, 1)
	p.shows("Running")

	p.press("Records")
	p.until("no record is shown", `document.querySelectorAll("article.record").length > 1`)
	p.until("more than ten are shown, or fewer", `document.querySelectorAll("article.record").length === 10`)
	p.press("Single record")
	p.until("it is not one record", `document.querySelectorAll("article.record").length === 1`)
	p.press("Pause")
	p.shows("paused")
	p.eval(`window.kept = document.querySelector("article.record").innerText`)
	before := readBy(w, "by-hand")
	w.Wait("records pass while the page is paused", func() bool { return readBy(w, "by-hand") > before+20 })
	p.until("the record did not stay", `document.querySelector("article.record").innerText === window.kept`)
	p.press("Resume")
	p.until("no other record comes",
		`document.querySelector("article.record") && document.querySelector("article.record").innerText !== window.kept`)

	p.press("Stop")
	w.WaitPhase("by-hand", spec.PhaseStopped, 0)
	p.press("Start")
	w.WaitPhase("by-hand", spec.PhaseRunning, 3) // stopping and starting change the declaration, too
	p.press("Delete")
	p.shows("Delete by-hand?")
	p.until("the question has no button", `!!document.querySelector("dialog button.danger")`)
	p.eval(`document.querySelector("dialog button.danger").click()`)
	p.shows("No pipelines yet")
	w.Wait("it is gone", func() bool { return w.Do("GET", "/v1/pipelines/by-hand", "").Status == 404 })
	for len(p.errors) > 0 { // the page may request it once more before it notices
		if message := <-p.errors; !strings.Contains(message, "404") || !strings.Contains(message, "by-hand") {
			t.Errorf("the page complains: %s", message)
		}
	}
}

// readBy returns how many records the sources of a pipeline have read.
func readBy(w *agenttest.Web, id string) int {
	total := 0.0
	for line := range strings.Lines(w.Do("GET", "/metrics", "").Body) {
		var v float64
		if strings.HasPrefix(line, "conduit_connector_records_total{") &&
			strings.Contains(line, `pipeline_id="`+id+`"`) && strings.Contains(line, `type="source"`) {
			if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &v); err == nil {
				total += v
			}
		}
	}
	return int(total)
}

const apiPipeline = `{"id":"api","status":"running","connectors":[{"id":"in","type":"source","plugin":"generator",` +
	`"settings":{"rate":"10","format.type":"structured","format.options.n":"int"}},{"id":"out","type":"destination",` +
	`"plugin":"log"}]}`

// A declaration is edited with the help of the agent, planned, applied, and rolled back.
func TestUIEditPlanApplyRollBack(t *testing.T) {
	load.Parallel(t, load.Agent+load.Browser)
	w := agenttest.StartWeb(t, "")
	var plan struct{ Hash string }
	w.Must("POST", "/v1/pipelines/plan", `{"config":`+apiPipeline+`}`, &plan)
	w.Must("POST", "/v1/pipelines/apply", `{"config":`+apiPipeline+`,"hash":"`+plan.Hash+`"}`, nil)
	w.WaitPhase("api", spec.PhaseRunning, 1)
	p := openPage(t, w.API.URL, "pipelines/api/declaration")
	p.until("the declaration is not shown",
		`document.querySelector(".editor textarea")?.value.includes("rate: \"10\"")`)
	editing := func(from, to string) string {
		return fmt.Sprintf(`(() => { const e = document.querySelector(".editor textarea"); e.value = `+
			`e.value.replace(%s, %s); e.dispatchEvent(new Event("input", {bubbles: true})); })()`, quoted(from),
			quoted(to))
	}
	edit := func(from, to string) { p.eval(editing(from, to)) }
	edit("type: source", "type: sauce")
	p.shows(`must be source or destination, not "sauce"`)
	p.until("the line is not marked", `(() => { const e = document.querySelector(".gutter .error"), line = `+
		`document.querySelector(".editor textarea").value.split("\n").findIndex((l) => l.includes("sauce")); return `+
		`e?.innerText === String(line + 1); })()`)
	edit("type: sauce", "type: source")
	edit(`rate: "10"`, `rate: "9"`)
	p.until("the button cannot be pressed", "!!"+button("Plan and apply…"))
	// before the agent has checked the edit
	p.eval(editing(`rate: "9"`, `rate: "11"`) + "; " + button("Plan and apply…") + ".click()")
	p.shows("restarts the pipeline from its saved position")
	p.press("Apply")
	w.WaitPhase("api", spec.PhaseRunning, 2)
	if body := w.Do("GET", "/v1/connectors/api:in", "").Body; !strings.Contains(body, `"rate":"11"`) {
		t.Errorf("another text than the last one was applied: %s", body)
	}

	p.press("History")
	p.shows("version 2")
	p.press("Roll back to this")
	p.shows("Roll back to revision 1?")
	p.shows("settings.rate")
	p.press("Roll back")
	w.WaitPhase("api", spec.PhaseRunning, 3)
	if body := w.Do("GET", "/v1/connectors/api:in", "").Body; !strings.Contains(body, `"rate":"10"`) {
		t.Errorf("it was not rolled back: %s", body)
	}
}

// A revision of a pipeline that a file owns is written to the file.
func TestUIWritesARevisionToTheFile(t *testing.T) {
	load.Parallel(t, load.Agent+load.Browser)
	w := agenttest.StartWeb(t, "")
	file := func(rate string) string {
		return `version: "2.2"
pipelines:
  - id: p # as it was
    connectors:
      - {id: in, type: source, plugin: generator, settings: {rate: "` + rate + `", format.type: raw}}
      - {id: out, type: destination, plugin: log}
`
	}
	w.Save("p.yaml", file("1"))
	w.WaitPhase("p", spec.PhaseRunning, 1)
	w.Save("p.yaml", file("2"))
	w.WaitPhase("p", spec.PhaseRunning, 2)

	p := openPage(t, w.API.URL, "pipelines/p/history")
	p.shows("version 2")
	p.press("Write this to the file")
	p.shows("Write revision 1 to ")
	p.shows("settings.rate")
	p.press("Write")
	w.WaitPhase("p", spec.PhaseRunning, 3)
	got, err := os.ReadFile(w.Path("pipelines/p.yaml"))
	if err != nil || !strings.Contains(string(got), `rate: "1"`) || !strings.Contains(string(got), "# as it was") {
		t.Errorf("the file is %s, %v", got, err)
	}
}

// The editor completes the valid words at the cursor, including plugins.
func TestUIEditorCompletes(t *testing.T) {
	load.Parallel(t, load.Agent+load.Browser)
	w := agenttest.StartWeb(t, "")
	p := openPage(t, w.API.URL, "new")
	p.press("YAML")
	p.enter(".editor textarea", "version: \"2.2\"\npipelines:\n  - id: p\n    connectors:\n      - id: in\n        "+
		"type: source\n        plugin: gen")
	p.until("generator is not proposed", `document.querySelector(".menu")?.innerText.includes("generator")`)
	p.do(chromedp.SendKeys(".editor textarea", "\r"))
	p.until("it was not completed",
		`document.querySelector(".editor textarea").value.trim().endsWith("plugin: generator")`)
}

// Everything can be reached with the keyboard.
func TestUIKeyboard(t *testing.T) {
	load.Parallel(t, load.Agent+load.Browser)
	w := agenttest.StartWeb(t, "")
	w.Save("p.yaml", agenttest.Generated(w.Dir, "p", 50, marked))
	w.Save("other.yaml", agenttest.Generated(w.Dir, "other", 1, ""))
	w.WaitPhase("p", spec.PhaseRunning, 1)
	w.WaitPhase("other", spec.PhaseRunning, 1)
	p := openPage(t, w.API.URL, "")
	p.shows("2 of 2 running")
	focused := func(selector string) string {
		return "document.activeElement?.matches(" + quoted(selector) + ")"
	}
	for _, step := range []struct{ key, until string }{
		{kb.Tab, focused("a.skip")},
		{"/", focused("#search")},
		{"p",
			`document.querySelector("#search").value === "p" && document.querySelectorAll("tbody th a").length === 1`},
		{kb.ArrowDown, focused(`a[href="#/pipelines/p"]`)},
		{kb.Enter, `location.hash === "#/pipelines/p" && !!document.querySelector(".node")`},
		{"2", `!!document.querySelector("article.record")`},
		{" ", `document.querySelector("#pause").innerText === "Resume"`},
		{" ", `document.querySelector("#pause").innerText === "Pause"`},
		{"5", `document.body.innerText.includes("revision 1")`},
		{"?", `!!document.querySelector("dialog")`},
		{kb.Escape, `!document.querySelector("dialog")`},
		{"ga", `document.body.innerText.includes("Settings in effect")`},
		{"gp", `location.hash === "#/" && !!document.querySelector("tbody th a")`},
		{"j", focused(`tbody th a`)},
	} {
		p.do(chromedp.KeyEvent(step.key))
		if len(step.key) == 2 { // too slow for a sequence of two keys
			again := func() bool {
				done, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool](whenThere(step.until)))
				if err == nil && !done {
					p.do(chromedp.KeyEvent(step.key))
				}
				return done
			}
			wait.For(t, step.until, again)
		}
		p.until(fmt.Sprintf("after the key %q not %s", step.key, step.until), step.until)
	}
}

// The focus stays where it is when a button changes, and when a question is answered.
func TestUIFocus(t *testing.T) {
	load.Parallel(t, load.Agent+load.Browser)
	w := agenttest.StartWeb(t, "")
	w.Save("p.yaml", agenttest.Generated(w.Dir, "p", 50, marked))
	w.WaitPhase("p", spec.PhaseRunning, 1)
	p := openPage(t, w.API.URL, "pipelines/p")
	p.until("the button is not there", `!!document.querySelector(".title button")`)
	p.eval(`document.querySelector(".title button").focus()`)
	for _, next := range []string{"Start", "Stop"} {
		p.do(chromedp.KeyEvent(kb.Enter))
		p.until("the focus is not on "+next, fmt.Sprintf(
			`document.activeElement?.innerText === %q && document.activeElement.ariaBusy !== "true"`, next))
	}
	mine, _, err := w.API.CreatePipeline(t.Context(), "", rest.PipelineConfig{Name: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	p.eval("location.hash = " + quoted("#/pipelines/"+mine.ID))
	const drop = `[...document.querySelectorAll(".title button")].find((b) => b.innerText === "Delete")`
	p.until("the button is not there", "!!"+drop)
	p.eval(drop + ".focus()")
	p.do(chromedp.KeyEvent(kb.Enter))
	p.until("nothing is asked", `document.activeElement?.matches("dialog button")`)
	p.do(chromedp.KeyEvent(kb.Escape))
	p.until("the focus is not back", drop+` === document.activeElement && document.activeElement.ariaBusy !== "true"`)
	p.eval(`document.querySelector(".toast button").focus()`)
	p.do(chromedp.KeyEvent(kb.Enter))
	p.until("the focus is not in the page after its element is gone", `document.activeElement?.id === "main"`)
}

// The drawing marks the stage that holds the pipeline back, and the stages that wait for it.
func TestUISlowStage(t *testing.T) {
	load.Parallel(t, load.Agent+load.Browser)
	w := agenttest.StartWeb(t, "")
	w.Save("p.yaml", agenttest.Generated(w.Dir, "p", 50, ""))
	w.WaitPhase("p", spec.PhaseRunning, 1)
	p := openPage(t, w.API.URL, "pipelines/p")
	p.until("the source is not marked",
		`document.querySelector(".node.source.slow .words")?.textContent === "dst waits for src"`)
	// On a busy machine a script may exceed its one-second limit: such a record is refused, and the pipeline
	// continues.
	busy := "dead-letter-queue: {window-size: 0}\n    processors: [{id: busy, plugin: custom.javascript, settings: " +
		"{script: 'function process(r) { for (let end = Date.now() + 200; Date.now() < end;); return r; }'}}]"
	w.Save("p.yaml", agenttest.Generated(w.Dir, "p", 50, busy))
	p.until("the processor is not marked",
		`document.querySelector(".node.processor.slow .words")?.textContent === "src waits for busy"`)
}

// With tokens configured, the page asks for a token, and reports a wrong one.
func TestUILogin(t *testing.T) {
	load.Parallel(t, load.Agent+load.Browser)
	w := agenttest.StartWeb(t, "", tokens(t, "read-secret", "admin-secret"))
	w.Save("p.yaml", agenttest.Generated(w.Dir, "p", 10, ""))
	w.WaitPhase("p", spec.PhaseRunning, 1)
	p := openPage(t, w.API.URL, "pipelines/p")
	p.shows("This agent requires a token")
	p.enter("#token", "wrong")
	p.press("Log in")
	p.shows("The token is wrong")
	p.fits("login")
	p.until("the header is high", `document.querySelector("header.top").offsetHeight < 120`)
	p.enter("#token", "read-secret")
	p.press("Log in")
	p.shows("read only")
	p.shows("Conditions")
	p.press("Log out")
	p.enter("#token", "admin-secret")
	p.press("Log in")
	p.until("there is no button to stop it",
		`[...document.querySelectorAll("button")].some((b) => b.innerText === "Stop")`)
	p.press("Records")
	p.until("no record comes over the WebSocket", `!!document.querySelector("article.record")`)
	for len(p.errors) > 0 { // the browser reports that requests were refused
		if message := <-p.errors; !strings.Contains(message, "401") {
			t.Errorf("the page complains: %s", message)
		}
	}
}

// tokens configures tokens for an agent.
func tokens(t *testing.T, read, admin string) func(*config.Config) {
	dir := t.TempDir()
	for name, token := range map[string]string{"read": read, "admin": admin} {
		if err := os.WriteFile(dir+"/"+name, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return func(c *config.Config) {
		c.API.Auth.ReadTokenFile, c.API.Auth.AdminTokenFile = dir+"/read", dir+"/admin"
	}
}

// The page reports that the agent is unreachable, and reconnects by itself when it is back.
func TestUIAgentRestartsUnderThePage(t *testing.T) {
	load.Parallel(t, load.Agent+load.Browser)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close() // the agent uses this port, twice
	at := func(c *config.Config) { c.API.HTTP.Address = address }
	w := agenttest.StartWeb(t, "", at)
	w.Save("p.yaml", agenttest.Generated(w.Dir, "p", 10, ""))
	w.WaitPhase("p", spec.PhaseRunning, 1)
	p := openPage(t, w.API.URL, "")
	p.restarts = true
	p.shows("1 of 1 running")
	w.Stop()
	p.shows("no connection, trying again")
	again := agenttest.Start(t, w.Dir, at)
	p.shows("live")
	again.Save("p.yaml", agenttest.Generated(w.Dir, "p", 20, ""))
	p.shows("runs version 2")
}

// A thousand pipelines: all are found, few are rendered, memory stays bounded, and no task of the page takes long.
// Tasks are judged by the CPU time of their thread relative to the thread's current speed, because the browser shares
// its CPUs with the agent and the test.
func TestUIThousandPipelines(t *testing.T) {
	load.Parallel(t, load.Agent+load.Browser)
	const n = 1000
	w := agenttest.StartWeb(t, "", func(c *config.Config) { c.Pipelines.Confirm = 0 })
	var b strings.Builder
	b.WriteString("version: \"2.2\"\npipelines:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - {id: p%04d, connectors: [{id: in, type: source, plugin: generator, settings: {rate: "+
			"\"0.2\", format.type: raw, format.options.n: int}}, {id: out, type: destination, plugin: file, "+
			"settings: {path: %q}}]}\n", i, w.Path("out.jsonl"))
	}
	w.Save("many.yaml", b.String())
	p := openPageIn(t, browser.Alone(t, *watch), w.API.URL, "")
	p.until("they do not all run", `document.body.innerText.includes("1000 of 1000 running")`)
	var s tasks
	s.trace(p, func() {
		p.do(chromedp.Reload())
		p.until("they are not all loaded", `document.body.innerText.includes("1000 of 1000 running")`)
	})
	heap := func() float64 {
		t.Helper()
		size, err := chromedp.Run(p.ctx,
			chromedp.Evaluate[float64](`(window.gc?.(), performance.memory.usedJSHeapSize)`))
		if err != nil {
			t.Fatal(err)
		}
		return size
	}
	t.Logf("loading took a task of %v", s.longest)
	first, slowness := heap(), p.slowness()
	for end := time.Now().Add(*watch); time.Now().Before(end); {
		s.trace(p, func() { p.scrollAbout(min(10*time.Second, time.Until(end))) })
		slowness = max(slowness, p.slowness())
	}
	rows, err := chromedp.Run(p.ctx, chromedp.Evaluate[int](`document.querySelectorAll("tbody tr").length`))
	if err != nil || rows > 200 {
		t.Errorf("%d rows are rendered, error %v", rows, err)
	}
	p.enter("#search", "p0777")
	p.until("it is not found", `document.querySelectorAll("tbody th a").length === 1`)
	t.Logf("of %d tasks the longest ran for %v; by wall time it took %v, and %d took more than 50 ms; heap %.1f MB, "+
		"then %.1f MB", s.n, s.longest, s.wall, s.long, first/1e6, heap()/1e6)
	if s.longest > time.Duration(slowness*float64(50*time.Millisecond)) {
		t.Errorf("a task ran for %v, on a machine that is %.1f times slower than it may be", s.longest, slowness)
	}
	if last := heap(); last > first+40e6 || last > 120e6 {
		t.Errorf("the heap grew from %.1f MB to %.1f MB", first/1e6, last/1e6)
	}
}

// scrollAbout scrolls to the end of the list of a thousand pipelines and back, for some time.
func (p *page) scrollAbout(d time.Duration) {
	p.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		p.eval("scrollTo(0, 30000)")
		p.until("the rows in sight are not rendered",
			`(() => { const e = document.elementFromPoint(400, 500)?.closest("tr"); return !!e && `+
				`e.innerText.includes("p0"); })()`)
		p.eval("scrollTo(0, 0)")
		p.until("the first rows are not rendered", `!!document.querySelector('a[href="#/pipelines/p0000"]')`)
	}
}
