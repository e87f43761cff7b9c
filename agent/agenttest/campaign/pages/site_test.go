package pages

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/browser"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

func TestMain(m *testing.M) {
	os.Exit(browser.Run(m))
}

// TestSite opens the documentation that the agent serves: its pages fit a narrow and a wide window, are accessible in
// light and dark, and the search links them.
func TestSite(t *testing.T) {
	load.Parallel(t, load.Browser+load.Agent)
	tab := browser.Tab(t, 0)
	address := serve(t)
	views := []struct {
		width  int64
		scheme string
	}{{400, "dark"}, {1280, "light"}}
	for _, name := range []string{"", "settings.html", "pipeline-file.html", "connector-file.html",
		"processor-field.set.html"} {
		do(t, tab, chromedp.Navigate("http://"+address+"/docs/"+name))
		until(t, tab, name+" has no text", `document.querySelector("article h1").innerText.length > 0`)
		for _, view := range views {
			do(t, tab, chromedp.EmulateViewport(view.width, 800), browser.Colours(view.scheme))
			browser.Fits(tab, t, fmt.Sprintf("%q %d %s", name, view.width, view.scheme))
		}
	}
	until(t, tab, "the search finds nothing", `(() => {
		const box = document.getElementById("search");
		box.value = "mqtt"; box.dispatchEvent(new Event("input", {bubbles: true}));
		return document.querySelector('#found a[href^="connector-mqtt.html"]') !== null;
	})()`)
	browser.Fits(tab, t, "search")
	do(t, tab, chromedp.Click(`#found a[href^="connector-mqtt.html"]`))
	wait.For(t, "the page that was found", func() bool { // the context of the previous page ends at any moment
		shown, err := chromedp.Run(tab,
			chromedp.Evaluate[string](`location.pathname + " " + document.querySelector("article h1")?.innerText`))
		return err == nil && strings.HasPrefix(shown, "/docs/connector-mqtt.html ") &&
			strings.Contains(strings.ToLower(shown[1:]), " mqtt")
	})
}

// serve runs the built agent in an empty directory and returns its API address.
func serve(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "log")
	log, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	agent := exec.Command(filepath.Join(build(t), "conduit"), "run")
	agent.Dir, agent.Stdout, agent.Stderr = dir, log, log
	agent.Env = append(os.Environ(), "CONDUIT_API_HTTP_ADDRESS=127.0.0.1:0")
	agent.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = agent.Process.Signal(syscall.SIGTERM)
		_ = agent.Wait()
		_ = log.Close()
	})
	ready := regexp.MustCompile(`API ready .*address=(\S+)`)
	var address [][]byte
	wait.For(t, "the address of the agent", func() bool {
		text, _ := os.ReadFile(path)
		address = ready.FindSubmatch(text)
		return address != nil
	})
	return string(address[1])
}

func do(t *testing.T, tab context.Context, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(tab, actions...); err != nil {
		t.Fatal(err)
	}
}

// until waits until an expression of JavaScript is true.
func until(t *testing.T, tab context.Context, failure, expression string) {
	t.Helper()
	if _, err := chromedp.Run(tab, chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(wait.Limit))); err !=
		nil {
		t.Fatalf("%s: %v", failure, err)
	}
}
