package kill_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest"
	"github.com/conduit-agent/conduit/agent/agenttest/kill"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(apiAddr); addr != "" {
		fmt.Fprintln(os.Stderr, serveAPI(addr))
		os.Exit(1)
	}
	agenttest.Child(loopURL, func(_ context.Context, url string) error { return sendRequests(url, 1) })
	kill.Main(m)
}
