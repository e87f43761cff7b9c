package crash_test

import (
	"flag"
	"os"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/process"
)

var (
	kills        = flag.Int("kills", 5, "kills of an agent; tests of less do it less often")
	terminations = flag.Int("terminations", 5, "ends of an agent with SIGTERM")
	cuts         = flag.Int("cuts", 3, "power cuts")
)

func TestMain(m *testing.M) {
	agenttest.ServeExecutable()
	process.Serve()
	os.Exit(m.Run())
}
