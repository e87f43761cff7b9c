package e2e_test

import (
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/config"
)

// desk is an agenttest.Desk with further actions of a user.
type desk struct{ *agenttest.Desk }

func atDesk(t *testing.T, change ...func(*config.Config)) *desk {
	t.Helper()
	return &desk{agenttest.AtDesk(t, change...)}
}

func deskIn(t *testing.T, dir string, change ...func(*config.Config)) *desk {
	t.Helper()
	return &desk{agenttest.DeskIn(t, dir, change...)}
}

func (d *desk) again(meanwhile func(), change ...func(*config.Config)) *desk {
	d.T.Helper()
	return &desk{d.Again(meanwhile, change...)}
}

// web is an agenttest.Web with further requests of a client.
type web struct{ *agenttest.Web }

// startAttentive is startWeb for an agent that observes its pipelines and its store all the time.
func startAttentive(t testing.TB) *web {
	t.Helper()
	return &web{agenttest.StartWiredWeb(t, "", agenttest.Attentive)}
}

func startWeb(t testing.TB, dir string, change ...func(*config.Config)) *web {
	t.Helper()
	return &web{agenttest.StartWeb(t, dir, change...)}
}
