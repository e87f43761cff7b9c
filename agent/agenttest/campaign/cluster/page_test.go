package cluster_test

import (
	"context"
	"fmt"
	"regexp"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/browser"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/load"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/spec"
)

// TestPage opens the page of a member in a browser: it lists the members, and the owner of each pipeline with the time
// and reason for the claim, and drains the member.
func TestPage(t *testing.T) {
	load.Parallel(t, load.Server+2*load.Agent+load.Browser)
	f := newFleet(t, 1, 2, 4, ttl)
	f.feed(10)
	f.await()
	m := f.members[0]
	m.awaitCluster("all have an owner", func(c *spec.Cluster) bool {
		return owned(c, "m0")+owned(c, "m1") == 4 && len(c.Pipelines) == 4
	})
	p := openPage(t, m, "agent")
	const rows = `[...document.querySelectorAll(%q)].map((r) => [...r.children].map((c) => c.innerText))`
	members, claims := fmt.Sprintf(rows, "#cluster table:not(#claims) tbody tr"), fmt.Sprintf(rows, "#claims tbody tr")
	p.until("both members", members+`.map((r) => r[0] + ' ' + r[1]).join() === 'm0 live,m1 live'`)
	p.until("who runs what since when and why", claims+`.length === 4 && `+claims+
		`.every((r, i) => r[0] === 'p' + i && /^m[01]$/.test(r[1]) && r[2] === 'strict' && r[3] !== '–' && `+
		`/^(Claimed|TookOver from m.)$/.test(r[4]))`)
	p.until("what the member says of itself",
		`/This agent is m0, joined\./.test(document.querySelector('#cluster').innerText)`)
	p.click("#cluster .title button")
	p.until("a member that is drained",
		`/This agent is m0, drained/.test(document.querySelector('#cluster').innerText)`)
	p.until("all on the other member", claims+`.length === 4 && `+claims+`.every((r) => r[1] === 'm1')`)
	if text := m.log.String(); !regexp.MustCompile(`method=POST path=/v1/cluster/drain status=200`).MatchString(text) {
		t.Error("the log does not have the request of the page")
	}
}

// page is the page of a member in a browser.
type page struct {
	t   *testing.T
	tab context.Context
}

// openPage opens a view of the page of a member.
func openPage(t *testing.T, m *member, view string) *page {
	t.Helper()
	p := &page{t, browser.Tab(t, 0)}
	all := ready.FindAllStringSubmatch(m.log.String(), -1)
	if err := chromedp.Do(p.tab, chromedp.Navigate("http://"+all[len(all)-1][1]+"/#/"+view)); err != nil {
		t.Fatal(err)
	}
	return p
}

// until waits until an expression is true.
func (p *page) until(what, expression string) {
	p.t.Helper()
	// An element may not exist yet.
	expression = "(() => { try { return !!(" + expression + ") } catch (e) { return false } })()"
	if _, err := chromedp.Run(p.tab, chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(wait.Limit))); err !=
		nil {
		text, _ := chromedp.Run(p.tab, chromedp.Evaluate[string]("document.body.innerText"))
		p.t.Fatalf("%s: %v; the page shows:\n%s", what, err, text)
	}
}

// click clicks on an element.
func (p *page) click(selector string) {
	p.t.Helper()
	if err := chromedp.Do(p.tab, chromedp.Click(selector)); err != nil {
		p.t.Fatal(err)
	}
}
