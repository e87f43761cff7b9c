package cluster_test

import (
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/conduit-agent/conduit/plugins/plugintest/network"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
	"github.com/conduit-agent/conduit/spec"
)

// awaitTakeOver waits until other members own the pipelines of a member.
func (f *fleet) awaitTakeOver(at int) {
	f.t.Helper()
	f.members[(at+1)%len(f.members)].awaitCluster("others have its pipelines", func(c *spec.Cluster) bool {
		return owned(c, f.members[at].name) == 0 && owned(c, "") == 0
	})
}

// faults are faults of a member or its link to NATS.
var faults = []struct {
	name     string
	do, heal func(m *member, p *network.Proxy)
}{
	{"stalled link", func(_ *member, p *network.Proxy) {
		p.Hold(true)
	}, func(_ *member, p *network.Proxy) { p.Heal() }},
	{"kill -9", func(m *member, _ *network.Proxy) { m.kill() }, func(m *member, _ *network.Proxy) { m.start() }},
	{"cut link", func(_ *member, p *network.Proxy) { p.Refuse(true); p.Cut() },
		func(_ *member, p *network.Proxy) { p.Heal() }},
	{"SIGSTOP", func(m *member, _ *network.Proxy) { m.signal(syscall.SIGSTOP) },
		func(m *member, _ *network.Proxy) { m.signal(syscall.SIGCONT) }},
	{"slow link", func(_ *member, p *network.Proxy) { p.Delay(300 * time.Millisecond) },
		func(_ *member, p *network.Proxy) { p.Heal() }},
}

// busiest returns the member with the most pipelines, once all members agree on all owners.
func (f *fleet) busiest() (at, most int) {
	f.t.Helper()
	var views [][]int
	wait.For(f.t, "the members to agree on who has how many pipelines", func() bool {
		views = nil
		for _, m := range f.members {
			c := decoded[spec.Cluster](m, "GET", "/v1/cluster")
			view := make([]int, len(f.members))
			for i := range f.members {
				view[i] = owned(&c, f.members[i].name)
			}
			views = append(views, view)
		}
		most = slices.Max(views[0])
		return most > 0 && !slices.ContainsFunc(views, func(v []int) bool { return !slices.Equal(v, views[0]) })
	}, func() string { return fmt.Sprint(views) })
	return slices.Index(views[0], most), most
}

// owners returns the owner of each pipeline, once each has one.
func (f *fleet) owners() map[string]string {
	f.t.Helper()
	all := map[string]string{}
	f.members[0].awaitCluster("every pipeline has an owner", func(c *spec.Cluster) bool {
		for _, p := range c.Pipelines {
			all[p.ID] = p.Member
		}
		return len(c.Pipelines) == len(f.written) && owned(c, "") == 0
	})
	return all
}
