package e2e_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/conduit-agent/conduit/spec"
)

// screenshots, when set, is the directory that pictures of pages are left in.
const screenshots = "CONDUIT_SCREENSHOTS"

// browser returns a context in which pages of a headless Chromium are opened.
func browser(t *testing.T) context.Context {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil && path == "" {
			path = found
		}
	}
	if path == "" {
		skip(t, "there is no chromium in the PATH, so pages are not tried in a browser")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WindowSize(1100, 900))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 2*time.Minute+soak(t))
	t.Cleanup(cancel)
	return ctx
}

// soak returns how long a page is watched; CONDUIT_SOAK sets the seconds.
func soak(t *testing.T) time.Duration {
	t.Helper()
	return time.Duration(setting(t, "CONDUIT_SOAK", 3)) * time.Second
}

// picture saves a screenshot of the page where an environment variable asks for one.
func picture(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	dir := os.Getenv(screenshots)
	if dir == "" {
		return
	}
	png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/"+name+".png", png, 0o600); err != nil {
		t.Fatal(err)
	}
}

// The explorer lists every operation, and each can be tried: one that reads, one that
// changes, one that streams.
func TestExplorerInABrowser(t *testing.T) {
	t.Parallel()
	ctx := browser(t)
	w := startWeb(t, "")
	w.Save("p.yaml", made(w.Dir, "p", 100, ""))
	w.WaitPhase("p", spec.PhaseRunning, 1)
	run := func(actions ...chromedp.Action[chromedp.Void]) {
		t.Helper()
		if err := chromedp.Do(ctx, actions...); err != nil {
			picture(t, ctx, "failure")
			t.Fatal(err)
		}
	}
	run(chromedp.Navigate(w.api.URL+"/openapi/"), chromedp.WaitVisible("#listPipelines"))
	operations, err := chromedp.Run(ctx, chromedp.Evaluate[int](`document.querySelectorAll("details.operation").length`))
	if err != nil {
		t.Fatal(err)
	}
	var document struct{ Paths map[string]map[string]any }
	w.must("GET", "/openapi/openapi.json", "", &document)
	want := 0
	for _, methods := range document.Paths {
		want += len(methods)
	}
	if operations != want || want == 0 {
		t.Errorf("%d operations are shown, want %d", operations, want)
	}
	picture(t, ctx, "explorer")

	answered := func(id, want string) {
		t.Helper()
		out := "#" + id + " form > pre"
		has := `document.querySelector("` + out + `").textContent.includes(` + "`" + want + "`" + `)`
		if _, err := chromedp.Run(ctx, chromedp.Poll[bool](has, chromedp.WithPollingTimeout(20*time.Second))); err != nil {
			picture(t, ctx, "failure")
			t.Fatalf("%s does not answer %s: %v", id, want, err)
		}
	}
	open := func(id string) {
		t.Helper()
		run(chromedp.Click("#"+id+" summary"), chromedp.WaitVisible("#"+id+" form"))
	}
	try := func(id string) { t.Helper(); run(chromedp.Click("#" + id + " form button")) }

	open("listPipelines")
	try("listPipelines")
	answered("listPipelines", `"id": "p"`)
	(&page{t: t, ctx: ctx}).fits("explorer-list")
	run(chromedp.Click("#listPipelines summary"))

	open("createPipeline")
	run(chromedp.SetValue("#createPipeline textarea", `{"id":"made-here","config":{"name":"made here"}}`))
	try("createPipeline")
	answered("createPipeline", "200 OK")
	picture(t, ctx, "create")
	if got := w.do("GET", "/v1/pipelines/made-here", ""); got.status != 200 {
		t.Errorf("it was not made: %d %s", got.status, got.body)
	}
	run(chromedp.Click("#createPipeline summary"))

	filled := func(field, want string) { // with what there is
		t.Helper()
		if _, err := chromedp.Run(ctx, chromedp.Poll[bool](`document.querySelector("`+field+`").value === "`+want+`"`, chromedp.WithPollingTimeout(20*time.Second))); err != nil {
			picture(t, ctx, "failure")
			t.Fatalf("%s is not filled with %s: %v", field, want, err)
		}
	}
	open("getConnector")
	filled("#getConnector form input", "p:dst")
	try("getConnector")
	answered("getConnector", `"TYPE_DESTINATION"`)
	run(chromedp.Click("#getConnector summary"))

	open("inspectConnector")
	filled("#inspectConnector form input", "p:dst")
	run(chromedp.SetValue("#inspectConnector form input", "p:none"))
	try("inspectConnector")
	answered("inspectConnector", "404 ")
	if _, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.querySelector("#inspectConnector form input").value = ""`)); err != nil {
		t.Fatal(err)
	}
	run(chromedp.SendKeys("#inspectConnector form input", "p:src"))
	try("inspectConnector")
	answered("inspectConnector", `"opencdc.readAt"`)
	picture(t, ctx, "inspect")
	run(chromedp.Click("#inspectConnector summary"))

	// A request as a command, and a question before something is deleted.
	open("deletePipeline")
	filled("#deletePipeline form input", "made-here")
	run(chromedp.SetValue("#deletePipeline form input", "made-here"))
	run(chromedp.Click("#deletePipeline form button.plain"))
	answered("deletePipeline", "curl -X DELETE "+w.api.URL+"/v1/pipelines/made-here")
	confirm := func(answer string) {
		t.Helper()
		if _, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("window.confirm = () => "+answer+", true")); err != nil {
			t.Fatal(err)
		}
		try("deletePipeline")
	}
	confirm("false")
	if got := w.do("GET", "/v1/pipelines/made-here", ""); got.status != 200 {
		t.Errorf("it was deleted although the question was answered with no: %d", got.status)
	}
	confirm("true")
	answered("deletePipeline", "200 OK")

	run(chromedp.SendKeys("#find", "dead-letter"))
	shown, err := chromedp.Run(ctx, chromedp.Text("#operations"))
	if err != nil || !strings.Contains(shown, "/dead-letter-queue") || strings.Contains(shown, "/v1/events") || strings.Contains(shown, "Processors") {
		t.Errorf("finding dead-letter shows %s, error %v", shown, err)
	}
	picture(t, ctx, "found")
}
