package plugins_test

import (
	"flag"
	"os"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/chaos"
	"github.com/conduit-agent/conduit/plugins/sdk"
)

var (
	pipelines = flag.Int("pipelines", 4, "pipelines of executables that start, change and stop")
	changes   = flag.Int("changes", 4, "changes of a destination between executables")
)

// served are connectors that exist for the tests, with the constructors of their sources and destinations.
func served(name string, source func() sdk.Source, destination func() sdk.Destination) sdk.Connector {
	return sdk.Connector{Name: name, Version: "v1.0.0", NewSource: source, NewDestination: destination}
}

func TestMain(m *testing.M) {
	if os.Getenv(agenttest.ExecutableVariable) == "chaos" {
		chaos.Main()
	}
	agenttest.ServeExecutable(
		served("typed", func() sdk.Source { return &typed{} }, nil),
		served("seen", nil, func() sdk.Destination { return &seen{} }),
		served("stuck", func() sdk.Source {
			return &stuckSource{}
		}, func() sdk.Destination { return &stuckDestination{} }),
		served("brittle", nil, func() sdk.Destination { return &brittle{} }),
		served("hopeless", nil, func() sdk.Destination { return &brittle{hopeless: true} }),
	)
	os.Exit(m.Run())
}
