package ui_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/browser"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/spec"
)

// picture saves a screenshot of the page if the flag is set.
func picture(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	if *screenshots == "" {
		return
	}
	png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(*screenshots+"/"+name+".png", png, 0o600); err != nil {
		t.Fatal(err)
	}
}

// The explorer lists every operation, and each can be tried: a read, a change, and a stream.
func TestExplorerInABrowser(t *testing.T) {
	load.Parallel(t, load.Agent+load.Browser)
	x := &explorer{Web: agenttest.StartWeb(t, ""), t: t, ctx: browser.Tab(t, 0)}
	x.Save("p.yaml", agenttest.Generated(x.Dir, "p", 100, ""))
	x.WaitPhase("p", spec.PhaseRunning, 1)
	x.run(chromedp.Navigate(x.API.URL+"/openapi/"), chromedp.WaitVisible("#listPipelines"))
	x.showsAllOperations()
	x.lists()
	x.creates()
	x.inspects()
	x.deletes()

	x.run(chromedp.SendKeys("#find", "dead-letter"))
	shown, err := chromedp.Run(x.ctx, chromedp.Text("#operations"))
	if err != nil || !strings.Contains(shown, "/dead-letter-queue") || strings.Contains(shown, "/v1/events") ||
		strings.Contains(shown, "Processors") {
		t.Errorf("finding dead-letter shows %s, error %v", shown, err)
	}
	picture(t, x.ctx, "found")
}

// explorer is the API explorer of an agent in a browser.
type explorer struct {
	*agenttest.Web
	t   *testing.T
	ctx context.Context
}

func (x *explorer) run(actions ...chromedp.Action[chromedp.Void]) {
	x.t.Helper()
	if err := chromedp.Do(x.ctx, actions...); err != nil {
		picture(x.t, x.ctx, "failure")
		x.t.Fatal(err)
	}
}

func (x *explorer) open(id string) {
	x.t.Helper()
	x.run(chromedp.Click("#"+id+" summary"), chromedp.WaitVisible("#"+id+" form"))
}

func (x *explorer) shut(id string) { x.t.Helper(); x.run(chromedp.Click("#" + id + " summary")) }

func (x *explorer) try(id string) { x.t.Helper(); x.run(chromedp.Click("#" + id + " form button")) }

// answered waits until an operation shows the wanted answer.
func (x *explorer) answered(id, want string) {
	x.t.Helper()
	x.until(id+" does not answer "+want, `document.querySelector("#`+id+` form > pre").textContent.includes(`+"`"+want+
		"`)")
}

// filled waits until a field is filled with existing values.
func (x *explorer) filled(field, want string) {
	x.t.Helper()
	x.until(field+" is not filled with "+want, `document.querySelector("`+field+`").value === "`+want+`"`)
}

func (x *explorer) until(otherwise, condition string) {
	x.t.Helper()
	if _, err := chromedp.Run(x.ctx, chromedp.Poll[bool](whenThere(condition),
		chromedp.WithPollingTimeout(wait.Limit))); err != nil {
		picture(x.t, x.ctx, "failure")
		x.t.Fatalf("%s: %v", otherwise, err)
	}
}

func (x *explorer) showsAllOperations() {
	x.t.Helper()
	operations, err := chromedp.Run(x.ctx,
		chromedp.Evaluate[int](`document.querySelectorAll("details.operation").length`))
	if err != nil {
		x.t.Fatal(err)
	}
	var document struct{ Paths map[string]map[string]any }
	x.Must("GET", "/openapi/openapi.json", "", &document)
	want := 0
	for _, methods := range document.Paths {
		want += len(methods)
	}
	if operations != want || want == 0 {
		x.t.Errorf("%d operations are shown, want %d", operations, want)
	}
	picture(x.t, x.ctx, "explorer")
}

func (x *explorer) lists() {
	x.open("listPipelines")
	x.try("listPipelines")
	x.answered("listPipelines", `"id": "p"`)
	(&page{t: x.t, ctx: x.ctx}).fits("explorer-list")
	x.shut("listPipelines")
}

func (x *explorer) creates() {
	x.open("createPipeline")
	x.run(chromedp.SetValue("#createPipeline textarea", `{"id":"made-here","config":{"name":"made here"}}`))
	x.try("createPipeline")
	x.answered("createPipeline", "200 OK")
	picture(x.t, x.ctx, "create")
	if got := x.Do("GET", "/v1/pipelines/made-here", ""); got.Status != 200 {
		x.t.Errorf("it was not made: %d %s", got.Status, got.Body)
	}
	x.shut("createPipeline")
	x.open("getConnector")
	x.filled("#getConnector form input", "p:dst")
	x.try("getConnector")
	x.answered("getConnector", `"TYPE_DESTINATION"`)
	x.shut("getConnector")
}

func (x *explorer) inspects() {
	x.open("inspectConnector")
	x.filled("#inspectConnector form input", "p:dst")
	x.run(chromedp.SetValue("#inspectConnector form input", "p:none"))
	x.try("inspectConnector")
	x.answered("inspectConnector", "404 ")
	if _, err := chromedp.Run(x.ctx,
		chromedp.Evaluate[string](`document.querySelector("#inspectConnector form input").value = ""`)); err != nil {
		x.t.Fatal(err)
	}
	x.run(chromedp.SendKeys("#inspectConnector form input", "p:src"))
	x.try("inspectConnector")
	x.answered("inspectConnector", `"opencdc.readAt"`)
	picture(x.t, x.ctx, "inspect")
	x.shut("inspectConnector")
}

// deletes shows a request as a command, and requires confirmation before a deletion.
func (x *explorer) deletes() {
	x.open("deletePipeline")
	x.filled("#deletePipeline form input", "made-here")
	x.run(chromedp.SetValue("#deletePipeline form input", "made-here"))
	x.run(chromedp.Click("#deletePipeline form button.plain"))
	x.answered("deletePipeline", "curl -X DELETE "+x.API.URL+"/v1/pipelines/made-here")
	confirm := func(answer string) {
		if _, err := chromedp.Run(x.ctx, chromedp.Evaluate[bool]("window.confirm = () => "+answer+", true")); err !=
			nil {
			x.t.Fatal(err)
		}
		x.try("deletePipeline")
	}
	confirm("false")
	if got := x.Do("GET", "/v1/pipelines/made-here", ""); got.Status != 200 {
		x.t.Errorf("it was deleted although the question was answered with no: %d", got.Status)
	}
	confirm("true")
	x.answered("deletePipeline", "200 OK")
}
