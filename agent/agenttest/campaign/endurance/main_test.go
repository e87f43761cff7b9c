package endurance_test

import (
	"flag"
	"os"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/process"
)

var (
	// By default the tests would take twice the memory limit.
	pipelines = flag.Int("pipelines", 12, "pipelines with records of 16 MiB below one memory limit")
	sharers   = flag.Int("sharers", 5,
		"pipelines with records of 16 MiB that share a memory limit with inspectors, spools and dead letters")
	seconds  = flag.Int("seconds", 4, "how long the soak runs")
	soakRate = flag.Int("rate", 20_000, "records a second of the soak; 0 is as many as there can be")
)

func TestMain(m *testing.M) {
	agenttest.ServeExecutable()
	process.Serve()
	os.Exit(m.Run())
}
