package kill_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/campaign/kill"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(apiAddr); addr != "" {
		fmt.Fprintln(os.Stderr, serveAPI(addr))
		os.Exit(1)
	}
	if addr := os.Getenv(elasticAddr); addr != "" {
		fmt.Fprintln(os.Stderr, serveElastic(addr))
		os.Exit(1)
	}
	agenttest.Child(bareLoop, runBareLoop)
	kill.Main(m)
}
