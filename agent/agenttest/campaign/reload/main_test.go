package reload_test

import (
	"flag"
	"os"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/campaign/process"
)

var (
	changes   = flag.Int("changes", 20, "changes of the destination of a busy pipeline")
	reloads   = flag.Int("reloads", 8, "changes of a busy pipeline")
	sequences = flag.Int("sequences", 1, "sequences of events that happen to the files")
	seed      = flag.Uint64("seed", 0, "the one sequence of events to repeat")
)

func TestMain(m *testing.M) {
	process.Serve()
	os.Exit(m.Run())
}
