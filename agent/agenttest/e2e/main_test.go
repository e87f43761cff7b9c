package e2e_test

import (
	"os"
	"testing"

	"github.com/conduit-agent/conduit/agent/agenttest/executable"
	"github.com/conduit-agent/conduit/plugins/plugintest/wait"
)

func TestMain(m *testing.M) {
	executable.Serve(serveTattler("tattler"))
	if address := os.Getenv(onlookers); address != "" {
		os.Exit(watchRecords(address, os.Args[1], os.Args[2]))
	}
	wait.CollectLess()
	os.Exit(m.Run())
}
