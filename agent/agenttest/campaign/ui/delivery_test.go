package ui_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/agent/config"
)

// The page counts pipelines that deliver as running and asks for attention when one does not deliver, naming the stage.
// A pipeline that a person stopped needs no attention.
func TestUIDelivery(t *testing.T) {
	load.Parallel(t, load.Agent+load.Browser)
	w := agenttest.StartWeb(t, "", func(c *config.Config) { c.Shutdown.Timeout = 100 * time.Millisecond })
	w.Save("works.yaml", agenttest.Generated(w.Dir, "works", 10, ""))
	w.Save("refused.yaml", fmt.Sprintf(`{version: "2.2", pipelines: [{id: refused, connectors: [
		{id: in, type: source, plugin: generator,
			settings: {format.type: structured, format.options.name: string, rate: "5"}},
		{id: out, type: destination, plugin: http, settings: {url: "http://%s/"}}]}]}`, agenttest.ClosedPort(t)))
	p := openPage(t, w.API.URL, "")
	p.shows("1 of 2 running")
	p.shows("Needs attention")
	p.shows("Not delivering")
	p.shows("cannot send records, retrying")
	p.press("refused")
	p.shows("Stages that are stuck")
	p.shows("nothing since")
	w.Must("POST", "/v1/pipelines/refused/stop", `{"force": true}`, nil)
	p.press("Pipelines")
	p.hides("Needs attention")
	p.hides("Not delivering")
}
