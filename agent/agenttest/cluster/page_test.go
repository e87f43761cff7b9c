package cluster_test

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/conduit-agent/conduit/api/rest"
	"github.com/conduit-agent/conduit/plugins/plugintest/browser"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

// TestPage opens the page of a member in a browser: it lists the members, and who runs which pipeline since when and
// why, and drains the member.
func TestPage(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1, 2, 4, ttl)
	f.feed(10)
	f.await()
	m := f.members[0]
	m.awaitCluster("all have an owner", func(c *rest.Cluster) bool { return owned(c, "m0")+owned(c, "m1") == 4 && len(c.Pipelines) == 4 })
	tab := browser.Tab(t, 0)
	until := func(what, expression string) {
		t.Helper()
		expression = "(() => { try { return !!(" + expression + ") } catch (e) { return false } })()" // elements that are not there yet
		if _, err := chromedp.Run(tab, chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(wait.Limit))); err != nil {
			text, _ := chromedp.Run(tab, chromedp.Evaluate[string]("document.body.innerText"))
			t.Fatalf("%s: %v; the page shows:\n%s", what, err, text)
		}
	}
	all := ready.FindAllStringSubmatch(m.log.String(), -1)
	if err := chromedp.Do(tab, chromedp.Navigate("http://"+all[len(all)-1][1]+"/#/agent")); err != nil {
		t.Fatal(err)
	}
	const rows = `[...document.querySelectorAll(%q)].map((r) => [...r.children].map((c) => c.innerText))`
	members, claims := fmt.Sprintf(rows, "#cluster table:not(#claims) tbody tr"), fmt.Sprintf(rows, "#claims tbody tr")
	until("both members", members+`.map((r) => r[0] + ' ' + r[1]).join() === 'm0 live,m1 live'`)
	until("who runs what since when and why", claims+`.length === 4 && `+claims+`.every((r, i) => r[0] === 'p' + i && /^m[01]$/.test(r[1]) && r[2] === 'strict' && r[3] !== '–' && /^(Claimed|TookOver from m.)$/.test(r[4]))`)
	until("what the member says of itself", `/This agent is m0, joined\./.test(document.querySelector('#cluster').innerText)`)
	if err := chromedp.Do(tab, chromedp.Click("#cluster .title button")); err != nil {
		t.Fatal(err)
	}
	until("a member that is drained", `/This agent is m0, drained/.test(document.querySelector('#cluster').innerText)`)
	until("all on the other member", claims+`.length === 4 && `+claims+`.every((r) => r[1] === 'm1')`)
	if text := m.log.String(); !regexp.MustCompile(`method=POST path=/v1/cluster/drain status=200`).MatchString(text) {
		t.Error("the log does not have the request of the page")
	}
}
