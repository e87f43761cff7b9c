// Package executables_test tests connectors in separate processes, in Go and Python and with every kind of
// misbehaviour, and builds of the agent without some parts.
package executables_test

import (
	"os"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/chaos"
	"github.com/conduit-agent/conduit/plugins/sandbox"
	"github.com/conduit-agent/conduit/plugins/wire"
)

// serveVariable makes this test binary a connector that misbehaves.
const serveVariable = "CHAOS_TEST_SERVE"

func TestMain(m *testing.M) {
	sandbox.Launch()
	if os.Getenv(serveVariable) != "" {
		chaos.Main()
	}
	if name := os.Getenv(connectorVariable); name != "" {
		wire.Serve(targets()[name].Connector)
	}
	os.Exit(m.Run())
}
